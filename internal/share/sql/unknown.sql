-- A call without a usable answer. Guard: nothing better is known.
UPDATE shares SET state = 'UNKNOWN', reason = $2, state_since = CASE state WHEN 'UNKNOWN' THEN state_since ELSE $3 END
 WHERE id = $1 AND state IN ('PENDING', 'UNKNOWN')
