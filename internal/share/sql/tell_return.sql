-- Notes when the channel is told of a return, before it is, and gives when it was told the last time.
UPDATE share_returns r SET told_at = $2 FROM (SELECT told_at FROM share_returns WHERE id = $1) last WHERE r.id = $1 RETURNING last.told_at
