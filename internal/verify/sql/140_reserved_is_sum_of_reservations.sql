-- Each stock's reserved quantity is the sum of its held reservations.
SELECT format('%s %s: reserved %s, held reservations %s', s.tenant_id, s.sku, s.reserved, r.held)
  FROM stock s
  CROSS JOIN LATERAL (SELECT coalesce(sum(quantity), 0) AS held
                        FROM reservations WHERE tenant_id = s.tenant_id AND sku = s.sku AND state = 'HELD') r
 WHERE s.reserved <> r.held
 LIMIT @max
