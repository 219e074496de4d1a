-- Guard: it is open. Stuck at the channel is no end: what is reserved and held stays so.
UPDATE refunds
   SET state_since = CASE WHEN state = 'UNKNOWN' THEN state_since ELSE $3 END, state = 'UNKNOWN', abnormal = true, failure = $2, alert_at = $4
 WHERE id = $1 AND state IN ('PENDING', 'UNKNOWN')
