-- What a receiver did not give back it owes, once: its journal says so. Guard: it is due.
UPDATE share_returns SET state = 'OWED', owed_journal_id = $2, state_since = $3 WHERE id = $1 AND state = 'DUE'
