-- Notes that the channel is about to be called, before it is. Guard: it is still to be told or asked.
UPDATE share_returns SET sends = sends + 1, next_drive_at = $2 WHERE id = $1 AND (state = 'PENDING' OR collecting) RETURNING sends
