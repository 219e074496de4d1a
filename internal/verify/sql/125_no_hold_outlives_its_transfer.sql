-- No hold of a transfer is open once the transfer has ended, and no reservation of it is held.
SELECT format('hold %s (%s) is open, transfer %s is %s', h.id, h.key, t.id, t.state)
  FROM holds h
  JOIN transfers t ON t.tenant_id = h.tenant_id AND t.gid = regexp_replace(h.key, '#[0-9]+$', '')
 WHERE h.captured + h.released < h.amount AND t.ended_at IS NOT NULL
 UNION ALL
SELECT format('reservation %s of %s is held, transfer %s is %s', r.key, r.sku, t.id, t.state)
  FROM reservations r
  JOIN transfers t ON t.tenant_id = r.tenant_id AND t.gid = r.key
 WHERE r.state = 'HELD' AND t.ended_at IS NOT NULL
 LIMIT @max
