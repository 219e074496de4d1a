-- Gives back what was set aside for receivers who will not get it. Guard: it was set aside.
UPDATE payments SET shared_pending = shared_pending - $2 WHERE id = $1 AND shared_pending >= $2
