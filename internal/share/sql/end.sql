-- Moves a sharing to an end. Guard: the state that it was read in, under its lock.
UPDATE shares SET state = $2, reason = $3, state_since = $4, ended_at = $4 WHERE id = $1 AND state = $5
