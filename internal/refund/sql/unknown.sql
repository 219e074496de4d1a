-- Guard: it is open. What is stuck at the channel is unknown already, and says why.
UPDATE refunds
   SET state = 'UNKNOWN', failure = $2, state_since = CASE WHEN state = 'UNKNOWN' THEN state_since ELSE $3 END,
       alert_at = CASE WHEN state = 'UNKNOWN' THEN alert_at ELSE least(alert_at, $4) END
 WHERE id = $1 AND state IN ('PENDING', 'UNKNOWN') AND NOT abnormal
