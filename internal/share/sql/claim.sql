-- Takes sharings that have not ended by their deadline. Guard: the new deadline; SKIP LOCKED lets several workers share.
WITH due AS (
    SELECT id FROM shares
     WHERE ended_at IS NULL AND next_drive_at <= $1
     ORDER BY next_drive_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
UPDATE shares s SET next_drive_at = $2 FROM due WHERE s.id = due.id RETURNING s.id
