-- Counts a call before it is made, and says when the one before it was. Guard: nobody else has called since, and it has not
-- ended; 0 rows means look again.
UPDATE refunds r SET calls = r.calls + 1, called_at = $3
  FROM refunds before
 WHERE r.id = $1 AND before.id = r.id AND r.calls = $2 AND r.state IN ('PENDING', 'UNKNOWN')
RETURNING before.called_at
