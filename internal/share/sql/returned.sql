-- A receiver has given back, once: its journal says so. Guard: the state that was read under the lock.
UPDATE share_returns SET state = $2, journal_id = $3, return_id = coalesce(nullif($4, ''), return_id), reason = '', collecting = false, state_since = $5
 WHERE id = $1 AND state = $6
