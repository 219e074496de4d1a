-- What was set aside has gone to a receiver. Guard: it was set aside.
UPDATE payments SET shared_pending = shared_pending - $2, shared_amount = shared_amount + $2 WHERE id = $1 AND shared_pending >= $2
