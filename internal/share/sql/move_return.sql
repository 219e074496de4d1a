-- Moves a return without a journal of its own coming back. Guard: the state that was read under the lock.
UPDATE share_returns SET state = $2, reason = CASE $3 WHEN '' THEN reason ELSE $3 END, collecting = $4, state_since = $5 WHERE id = $1 AND state = $6
