-- Closes all open legs of a sharing that was refused.
UPDATE share_legs SET state = 'CLOSED', reason = $2, ended_at = $3 WHERE share_id = $1 AND state = 'PENDING'
