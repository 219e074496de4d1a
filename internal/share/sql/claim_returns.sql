-- Takes sharings whose receivers are being asked and whose flow should have moved by now. Guard: the new deadline.
WITH due AS (
    SELECT id FROM share_returns
     WHERE collecting AND next_drive_at <= $1
     ORDER BY next_drive_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE share_returns r SET next_drive_at = $2 FROM due WHERE r.id = due.id RETURNING r.leg_id, r.state_since
)
SELECT l.share_id, min(claimed.state_since) AS since FROM claimed JOIN share_legs l ON l.id = claimed.leg_id GROUP BY l.share_id
