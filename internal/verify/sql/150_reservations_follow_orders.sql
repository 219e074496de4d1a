-- An order has a reservation of each of its items: held while it is pending, confirmed when it was paid, released when it was closed.
SELECT format('%s/%s is %s: its item %s (%s) has the reservation %s', p.tenant_id, p.out_trade_no, p.state, i.sku, i.quantity, coalesce(r.state || ' ' || r.quantity, 'none'))
  FROM payments p
  CROSS JOIN LATERAL (SELECT x->>'sku' AS sku, (x->>'quantity')::bigint AS quantity FROM json_array_elements(p.items) x) i
  LEFT JOIN reservations r ON r.tenant_id = p.tenant_id AND r.key = 'pay/' || p.out_trade_no AND r.sku = i.sku
 WHERE r.quantity IS DISTINCT FROM i.quantity
    OR r.state <> CASE p.state WHEN 'PENDING' THEN 'HELD' WHEN 'CLOSED' THEN 'RELEASED' ELSE 'CONFIRMED' END
 LIMIT @max
