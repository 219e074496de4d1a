-- Notes when the channel is told of a sharing, before it is, and gives when it was told the last time.
UPDATE shares s SET told_at = $2 FROM (SELECT told_at FROM shares WHERE id = $1) last WHERE s.id = $1 RETURNING last.told_at
