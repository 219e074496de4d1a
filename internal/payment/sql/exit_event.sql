-- Guard: only a PARKED event leaves by an exit; 0 rows means somebody else was first.
UPDATE channel_events
   SET state = $2, outcome = $3, reason = $4, journal_id = $5, state_since = now()
 WHERE id = $1 AND state = 'PARKED'
