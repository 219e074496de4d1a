-- What the channel answered. Guard: the state moves only while the refund is open; its end is an event's.
UPDATE refunds
   SET state_since = CASE WHEN state IN ('PENDING', 'UNKNOWN') AND state <> $2 THEN $6 ELSE state_since END,
       alert_at = CASE WHEN state = 'PENDING' AND $2 = 'UNKNOWN' THEN least(alert_at, $9) ELSE alert_at END,
       abnormal = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN $3 ELSE abnormal END,
       failure = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN $4 ELSE failure END,
       fee = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN coalesce($8, fee) ELSE fee END,
       state = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN $2 ELSE state END,
       refund_id = CASE WHEN refund_id = '' THEN $7 ELSE refund_id END,
       channel_state = $5, asked_at = $6
 WHERE id = $1
