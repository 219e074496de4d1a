-- Ends a decided transfer. Guard: the state it was decided to.
UPDATE transfers SET state = $2, ended_at = now() WHERE id = $1 AND state = $3
