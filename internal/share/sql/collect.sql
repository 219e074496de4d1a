-- Has the channel asked for what is owed. A number that was refused is used; the next one is another. Guard: it is owed, and
-- not being asked for.
UPDATE share_returns SET collecting = true, attempt = $2, out_return_no = $3, sends = 0, told_at = NULL, reason = '', state_since = $4, next_drive_at = $5
 WHERE id = $1 AND state = 'OWED' AND NOT collecting
