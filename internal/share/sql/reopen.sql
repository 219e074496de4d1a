-- Takes a refused sharing up again. Guards: REFUSED to PENDING once; share_finish_once.
UPDATE shares SET state = 'PENDING', reason = '', told_at = NULL, retries = retries + 1, state_since = $2, ended_at = NULL, next_drive_at = $3
 WHERE id = $1 AND state = 'REFUSED'
