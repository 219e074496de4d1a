-- Parked events that nobody has looked at by their deadline; each is told again after another one.
WITH due AS (
    SELECT id FROM channel_events
     WHERE state = 'PARKED' AND next_drive_at <= $1
     ORDER BY next_drive_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
UPDATE channel_events e
   SET next_drive_at = $2
  FROM due
 WHERE e.id = due.id
RETURNING e.id, e.tenant_id, e.event_key, e.outcome, e.received_at
