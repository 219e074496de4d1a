-- Guard: to SUCCEEDED once, from the state that it was read in under its lock, and by the one journal of the leg.
UPDATE share_legs SET state = 'SUCCEEDED', journal_id = $2, reason = '', ended_at = $3, receivable = $5, excess = $6 WHERE id = $1 AND state = $4
