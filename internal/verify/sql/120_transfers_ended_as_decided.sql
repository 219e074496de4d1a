-- Each transfer that has ended left what it should: confirmed, its journal; cancelled, none.
SELECT format('transfer %s (%s) is %s: journal %s', t.id, t.gid, t.state, coalesce(j.id::text, 'none'))
  FROM transfers t
  LEFT JOIN journals j ON j.tenant_id = t.tenant_id AND j.key = t.gid
 WHERE t.ended_at IS NOT NULL
   AND ((t.state = 'CANCELLED' AND j.id IS NOT NULL)
        OR (t.state = 'CONFIRMED' AND j.id IS NULL AND t.legs::text LIKE '%"type":"ledger"%'))
 LIMIT @max
