-- Each transfer has the journal that its state says: confirmed, one of the amounts of its legs; any other, none (CONFIRMING: may have).
SELECT format('transfer %s (%s) is %s: legs receive %s, journal %s receives %s', t.id, t.gid, t.state, l.received, coalesce(j.id::text, 'none'), coalesce(e.received::text, '-'))
  FROM transfers t
  LEFT JOIN journals j ON j.tenant_id = t.tenant_id AND j.key = t.gid AND j.kind = 'transfer'
  CROSS JOIN LATERAL (SELECT coalesce(sum((x->>'amount')::bigint) FILTER (WHERE (x->>'amount')::bigint > 0), 0) AS received
                        FROM json_array_elements(t.legs) x WHERE x->>'type' = 'ledger') l
  LEFT JOIN LATERAL (SELECT sum(amount) FILTER (WHERE amount > 0) AS received FROM entries WHERE journal_id = j.id) e ON j.id IS NOT NULL
 WHERE CASE
         WHEN j.id IS NULL THEN t.state = 'CONFIRMED' AND l.received > 0
         ELSE t.state NOT IN ('CONFIRMED', 'CONFIRMING') OR e.received IS DISTINCT FROM l.received
       END
 UNION ALL
SELECT format('journal %s (%s) is of no transfer', j.id, j.key)
  FROM journals j
 WHERE j.kind = 'transfer' AND NOT EXISTS (SELECT FROM transfers t WHERE t.tenant_id = j.tenant_id AND t.gid = j.key)
 LIMIT @max
