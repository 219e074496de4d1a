-- Guard: only a RECEIVED event is settled; 0 rows means somebody else did it.
UPDATE channel_events
   SET state = $2, outcome = $3, reason = $4, journal_id = $5, state_since = $6,
       next_drive_at = $7
 WHERE id = $1 AND state = 'RECEIVED'
