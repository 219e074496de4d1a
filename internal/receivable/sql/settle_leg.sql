-- Guard: leg_divided. No more is settled than is owed.
UPDATE share_legs SET settled = settled + $2 WHERE id = $1 AND state = 'SUCCEEDED'
