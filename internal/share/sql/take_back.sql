-- Takes back a part of what a receiver got. Guard: it has that much of it left.
UPDATE share_legs SET taken_back = taken_back + $2 WHERE id = $1 AND state = 'SUCCEEDED' AND amount - taken_back >= $2
