-- Notes that somebody is told of what does not end. Guard: nobody was told since it is so, or only long ago; 0 rows: say nothing.
UPDATE shares SET alerted_at = $2 WHERE id = $1 AND (alerted_at IS NULL OR alerted_at < $3 OR alerted_at <= $4)
