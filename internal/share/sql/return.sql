-- The columns of share.Return; the caller appends its WHERE.
SELECT r.id, r.tenant_id, r.leg_id, r.refund_id, f.out_refund_no, f.state AS refund_state, r.amount, r.state, r.reason, r.out_return_no, r.attempt,
       r.return_id, r.sends, r.collecting, r.created_at, s.id AS share_row, s.out_order_no, s.share_id, s.payment_id, s.account_id, c.channel,
       s.transaction_id, s.currency, p.out_trade_no, p.channel_reference, l.account, l.type
  FROM share_returns r
  JOIN share_legs l ON l.id = r.leg_id
  JOIN shares s ON s.id = l.share_id
  JOIN payments p ON p.id = s.payment_id
  JOIN channel_accounts c ON c.id = s.account_id
  JOIN refunds f ON f.id = r.refund_id
