-- Tries the money of a transfer in one statement: the fence's row and the holds are there together or not at all. It runs for
-- one that is there already, or follows create.sql in the same transaction: which is put into the braces. A row back: it is tried, and these legs are external. No row: nothing was done, as it is decided, was
-- tried before, takes goods, or is refused; step by step it is told which.
-- Guards: the transfer's row, locked against the decision; what is available, read under the accounts' locks; the primary key
-- of the fence. $3 is TRYING: as a literal it would let the planner walk the small index of unended transfers, whose dead
-- rows it does not count.
WITH t AS (
    SELECT tenant_id, gid, legs
      FROM transfers
     WHERE {which} AND state = $3
       AND NOT EXISTS (SELECT FROM json_to_recordset(legs) AS l (type text) WHERE l.type NOT IN ('ledger', 'http'))
       FOR NO KEY UPDATE
), leg AS (
    SELECT t.tenant_id, t.gid, l.n, l.type, l.account, l.currency, l.amount
      FROM t CROSS JOIN ROWS FROM (json_to_recordset(t.legs) AS (type text, account text, currency text, amount bigint))
             WITH ORDINALITY AS l (type, account, currency, amount, n)
), money AS (
    SELECT tenant_id, gid || '#' || row_number() OVER (ORDER BY n) - 1 AS hold, account, currency, amount FROM leg WHERE type = 'ledger'
), payer AS (
    -- Rows are locked by id, as everywhere.
    SELECT a.id, a.allow_negative OR a.balance - a.held >= -m.amount AS able, m.tenant_id, m.hold, -m.amount AS amount
      FROM money m JOIN ledger_accounts a ON a.tenant_id = m.tenant_id AND a.code = m.account AND a.currency = m.currency
     WHERE m.amount < 0
     ORDER BY a.id
       FOR NO KEY UPDATE OF a
), payee AS (
    SELECT a.balance <= $2 - m.amount AS able
      FROM money m JOIN ledger_accounts a ON a.tenant_id = m.tenant_id AND a.code = m.account AND a.currency = m.currency
     WHERE m.amount > 0
), fence AS (
    INSERT INTO fences (gid, branch, phase, by)
    SELECT gid, 'books', 'try', 'try'
      FROM t
     WHERE (SELECT count(*) FROM money) = (SELECT count(*) FROM payer WHERE able) + (SELECT count(*) FROM payee WHERE able)
    ON CONFLICT DO NOTHING
    RETURNING gid
), hold AS (
    INSERT INTO holds (tenant_id, account_id, key, amount)
    SELECT payer.tenant_id, payer.id, payer.hold, payer.amount FROM fence CROSS JOIN payer
    RETURNING account_id, amount
), held AS (
    -- Guard: CHECK available_not_negative, though it was looked at above.
    UPDATE ledger_accounts a SET held = a.held + hold.amount, version = a.version + 1 FROM hold WHERE a.id = hold.account_id
)
SELECT ARRAY(SELECT n - 1 FROM leg WHERE type = 'http' ORDER BY n) AS external FROM fence
