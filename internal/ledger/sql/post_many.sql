-- Many journals with their entries and balances, in one statement. Items are numbered from 1; lines name their item.
-- Guard: UNIQUE (tenant_id, key) decides item by item; an item whose journal is there already has no part in the rest.
WITH item AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS i (tenant_id, key, kind, n)
), journal AS (
    INSERT INTO journals (tenant_id, key, kind)
    SELECT tenant_id, key, kind FROM item ORDER BY tenant_id, key
    ON CONFLICT ON CONSTRAINT journal_once DO NOTHING
    RETURNING id, tenant_id, key
), line AS (
    SELECT journal.id AS journal_id, l.line, item.tenant_id, a.id AS account_id, l.amount
      FROM journal
      JOIN item USING (tenant_id, key)
      JOIN unnest($4::bigint[], $5::smallint[], $6::text[], $7::text[], $8::bigint[]) AS l (n, line, code, currency, amount) ON l.n = item.n
      -- Left: a line of an account that is not there must fail the statement, not vanish from it.
      LEFT JOIN ledger_accounts a ON a.tenant_id = item.tenant_id AND a.code = l.code AND a.currency = l.currency
), total AS (
    SELECT account_id, sum(amount)::bigint AS amount, count(*) AS lines FROM line GROUP BY account_id
), locked AS (
    -- By id, as everywhere.
    SELECT a.id, total.amount, total.lines FROM ledger_accounts a JOIN total ON total.account_id = a.id ORDER BY a.id FOR UPDATE OF a
), moved AS (
    -- Guard: CHECK available_not_negative.
    UPDATE ledger_accounts a
       SET balance = a.balance + locked.amount, version = a.version + locked.lines
      FROM locked
     WHERE a.id = locked.id
    RETURNING a.id, a.balance - locked.amount AS balance, a.version - locked.lines AS version
), posted AS (
    INSERT INTO entries (journal_id, line, tenant_id, account_id, amount, balance_after, account_version)
    SELECT line.journal_id, line.line, line.tenant_id, line.account_id, line.amount,
           moved.balance + sum(line.amount) OVER running, moved.version + row_number() OVER running
      FROM line LEFT JOIN moved ON moved.id = line.account_id
    WINDOW running AS (PARTITION BY line.account_id ORDER BY line.journal_id, line.line)
)
SELECT item.n, journal.id FROM journal JOIN item USING (tenant_id, key)
