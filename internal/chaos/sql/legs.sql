-- Every leg of every sharing; a sharing without legs has one that is empty.
SELECT s.tenant_id, s.out_order_no, p.out_trade_no, s.state, coalesce(l.account, '') AS account, coalesce(l.amount, 0) AS amount,
       coalesce(l.state, '') AS leg_state
  FROM shares s JOIN payments p ON p.id = s.payment_id LEFT JOIN share_legs l ON l.share_id = s.id
 ORDER BY s.id, l.account
