-- Every order.
SELECT p.tenant_id, p.out_trade_no, p.amount, p.currency, p.state, count(r.payment_id) AS codes
  FROM payments p LEFT JOIN redemption_codes r ON r.payment_id = p.id
 GROUP BY p.id
