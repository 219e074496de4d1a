-- One journal with its entries and balances, in one statement.
-- Guard: UNIQUE (tenant_id, key) on journals decides who books; without a new journal nothing below happens.
WITH journal AS (
    INSERT INTO journals (tenant_id, key, kind)
    VALUES ($1, $2, $3)
    ON CONFLICT ON CONSTRAINT journal_once DO NOTHING
    RETURNING id
), locked AS (
    -- Rows are locked by id, so that crossing journals wait instead of deadlocking.
    SELECT a.id, l.line, l.amount, l.held
      FROM journal, unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[]) WITH ORDINALITY AS l (code, currency, amount, held, line)
      JOIN ledger_accounts a ON a.tenant_id = $1 AND a.code = l.code AND a.currency = l.currency
     ORDER BY a.id
       FOR UPDATE OF a
), moved AS (
    -- Guard: CHECK available_not_negative.
    UPDATE ledger_accounts a
       SET balance = a.balance + locked.amount, held = a.held + locked.held, version = a.version + 1
      FROM locked
     WHERE a.id = locked.id
    RETURNING a.id, locked.line, locked.amount, a.balance, a.version
), posted AS (
    INSERT INTO entries (journal_id, line, tenant_id, account_id, amount, balance_after, account_version)
    SELECT journal.id, moved.line, $1, moved.id, moved.amount, moved.balance, moved.version
      FROM journal, moved
)
SELECT id FROM journal
