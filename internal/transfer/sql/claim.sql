-- Takes transfers that have not ended by their deadline. Guard: the new deadline; SKIP LOCKED lets several workers share.
WITH due AS (
    SELECT id FROM transfers
     WHERE state IN ('TRYING', 'CONFIRMING', 'CANCELLING') AND next_drive_at <= $1
     ORDER BY next_drive_at
     LIMIT $4
       FOR UPDATE SKIP LOCKED
)
UPDATE transfers t
   SET next_drive_at = CASE WHEN t.state = 'TRYING' THEN $2::timestamptz ELSE $3::timestamptz END
  FROM due
 WHERE t.id = due.id
RETURNING t.id, t.tenant_id, t.gid, t.reference, t.idempotency_key, t.fingerprint, t.mode, t.state, t.failure, t.legs, t.created_at, t.decided_at, t.ended_at
