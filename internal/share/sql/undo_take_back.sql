-- What was to be taken back is not. Guard: it was to be.
UPDATE share_legs SET taken_back = taken_back - $2 WHERE id = $1 AND taken_back >= $2
