-- Ends a transfer that settle.sql has just confirmed. Guards: it was decided to confirm in this very transaction, and its fence
-- says that it was confirmed.
UPDATE transfers t
   SET state = 'CONFIRMED', ended_at = now()
 WHERE t.id = $1 AND t.decided_at = now() AND t.ended_at IS NULL
   AND EXISTS (SELECT FROM fences f WHERE f.gid = t.gid AND f.branch = 'books' AND f.phase = 'end' AND f.by = 'confirm')
