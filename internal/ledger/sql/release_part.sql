-- Gives back a part of a hold. Guard: that much is left of it; no row back where it is not.
WITH hold AS (
    UPDATE holds SET released = released + $2 WHERE id = $1 AND amount - captured - released >= $2 AND $2 > 0
    RETURNING account_id
)
UPDATE ledger_accounts a SET held = a.held - $2, version = a.version + 1 FROM hold WHERE a.id = hold.account_id
