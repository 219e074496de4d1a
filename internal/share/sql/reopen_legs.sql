-- Opens the legs of a sharing that is taken up again.
UPDATE share_legs SET state = 'PENDING', reason = '', ended_at = NULL WHERE share_id = $1 AND state = 'CLOSED'
