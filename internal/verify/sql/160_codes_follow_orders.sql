-- Each paid order that asked for a redemption code has one, and no other order has.
SELECT format('%s/%s is %s, wants a code: %s, has one: %s', p.tenant_id, p.out_trade_no, p.state, p.wants_code, c.payment_id IS NOT NULL)
  FROM payments p LEFT JOIN redemption_codes c ON c.payment_id = p.id
 WHERE (c.payment_id IS NOT NULL) <> (p.wants_code AND p.state IN ('PAID', 'SHIPPED', 'COMPLETED'))
 LIMIT @max
