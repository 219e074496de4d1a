-- The hold of each sharing is open by the sum of its open legs, and earlier holds of it are not open at all.
SELECT format('%s/%s is %s: open legs %s, its hold is open by %s, earlier ones by %s', s.tenant_id, s.out_order_no, s.state, l.pending, h.now, h.before)
  FROM shares s
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount) FILTER (WHERE state = 'PENDING'), 0) AS pending FROM share_legs WHERE share_id = s.id) l
  CROSS JOIN LATERAL (SELECT coalesce(sum(x.amount - x.captured - x.released) FILTER (WHERE x.retry = s.retries), 0) AS now,
                             coalesce(sum(x.amount - x.captured - x.released) FILTER (WHERE x.retry <> s.retries), 0) AS before
                        FROM (SELECT r.retry, h.amount, h.captured, h.released
                                FROM generate_series(0, s.retries) AS r (retry)
                                JOIN holds h ON h.tenant_id = s.tenant_id
                                            AND h.key = 'share/' || s.out_order_no || CASE r.retry WHEN 0 THEN '' ELSE '#' || r.retry END) x) h
 WHERE h.now <> l.pending OR h.before <> 0
 LIMIT @max
