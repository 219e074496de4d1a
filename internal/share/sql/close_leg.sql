-- Guard: PENDING to CLOSED once. A reason that is there stays.
UPDATE share_legs SET state = 'CLOSED', reason = CASE reason WHEN '' THEN $2 ELSE reason END, ended_at = $3 WHERE id = $1 AND state = 'PENDING'
