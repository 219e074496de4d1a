-- Deletes the fences of transfers that ended long ago, a few at a time. The transfer's row stays and bars what comes late.
DELETE FROM fences f
 USING (SELECT e.gid
          FROM fences e
         WHERE e.phase = 'end' AND e.created_at < $1
           AND EXISTS (SELECT FROM transfers t WHERE t.gid = e.gid AND t.ended_at < $1)
         ORDER BY e.created_at
         LIMIT $2) old
 WHERE f.gid = old.gid
