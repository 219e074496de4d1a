-- Puts the deadline of sharings that have not ended, and of what is collected of others, earlier.
WITH collected AS (
    UPDATE share_returns r SET next_drive_at = $2 FROM share_legs l WHERE l.id = r.leg_id AND l.share_id = ANY($1) AND r.collecting
)
UPDATE shares SET next_drive_at = $2 WHERE id = ANY($1) AND ended_at IS NULL
