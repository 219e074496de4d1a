-- Counts a call before it is made. Guard: nobody else has called since, and it has not ended; 0 rows means look again.
UPDATE refunds SET calls = calls + 1 WHERE id = $1 AND calls = $2 AND state IN ('PENDING', 'UNKNOWN')
