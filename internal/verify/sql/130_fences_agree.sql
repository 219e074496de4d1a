-- No fence ended one way for a transfer that went the other, and none was ended without a try row.
SELECT format('fence %s/%s ended by %s, the transfer is %s', f.gid, f.branch, f.by, coalesce(t.state, 'not there'))
  FROM fences f
  LEFT JOIN transfers t ON t.gid = f.gid
  LEFT JOIN fences tried ON tried.gid = f.gid AND tried.branch = f.branch AND tried.phase = 'try'
 WHERE f.phase = 'end'
   AND (tried.gid IS NULL
        OR (t.id IS NOT NULL AND f.by = 'confirm' AND t.state NOT IN ('CONFIRMING', 'CONFIRMED'))
        OR (t.id IS NOT NULL AND f.by = 'cancel' AND t.state NOT IN ('CANCELLING', 'CANCELLED')))
 LIMIT @max
