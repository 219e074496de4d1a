-- An order's reservations are held while it is pending, confirmed when it was paid, released when it was closed.
SELECT format('%s/%s is %s: reservation of %s is %s', p.tenant_id, p.out_trade_no, p.state, r.sku, r.state)
  FROM payments p
  JOIN reservations r ON r.tenant_id = p.tenant_id AND r.key = 'pay/' || p.out_trade_no
 WHERE r.state <> CASE p.state WHEN 'PENDING' THEN 'HELD' WHEN 'CLOSED' THEN 'RELEASED' ELSE 'CONFIRMED' END
 LIMIT @max
