-- Notes that the channel is about to be called, before it is: from now on it may have the sharing. Guard: it has not ended.
UPDATE shares SET sends = sends + 1 WHERE id = $1 AND ended_at IS NULL RETURNING sends
