-- The channel has the sharing. Guard: what is further already stays there.
UPDATE shares
   SET state = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN 'PROCESSING' ELSE state END,
       reason = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN '' ELSE reason END,
       state_since = CASE WHEN state IN ('PENDING', 'UNKNOWN') THEN $3 ELSE state_since END,
       share_id = coalesce(nullif($2, ''), share_id)
 WHERE id = $1
