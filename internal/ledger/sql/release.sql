-- Gives back what is left of a hold. Guard: what is left is read and written under the row's lock.
WITH left_over AS (
    SELECT id, account_id, amount - captured - released AS rest FROM holds WHERE id = $1 FOR UPDATE
), hold AS (
    UPDATE holds h SET released = h.released + l.rest FROM left_over l WHERE h.id = l.id AND l.rest > 0
), account AS (
    UPDATE ledger_accounts a SET held = a.held - l.rest, version = a.version + 1 FROM left_over l WHERE a.id = l.account_id AND l.rest > 0
)
SELECT rest FROM left_over
