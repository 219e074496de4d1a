-- Every refund.
SELECT r.tenant_id, r.out_refund_no, coalesce(p.out_trade_no, '') AS out_trade_no, r.amount, r.state, r.origin
  FROM refunds r LEFT JOIN payments p ON p.id = r.payment_id
