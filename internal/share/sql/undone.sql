-- A payment that is undone in part, this refund included, and the tenant's policy. The payment is locked.
SELECT p.amount, least(p.amount, p.refund_pending + p.refunded_amount) AS undone, t.refund_of_shared AS policy,
       EXISTS (SELECT FROM share_legs l JOIN shares s ON s.id = l.share_id WHERE s.payment_id = p.id AND l.state = 'PENDING') AS open
  FROM payments p JOIN tenants t USING (tenant_id)
 WHERE p.id = $1
