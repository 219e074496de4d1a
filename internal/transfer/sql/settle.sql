-- Confirms a transfer of money alone in one statement: decided and ended are one moment, as nobody sees the one without the
-- other. Guards: state TRYING decides once; without the fence's row of its Try nothing is decided; the primary key of the fence
-- decides against Cancel, and fails all of it; a payer's line exists only where its whole hold is captured, so that a hold which
-- is not there leaves a journal that does not balance, and fails all of it. $2 is TRYING, as in try.sql.
WITH t AS (
    UPDATE transfers t
       SET state = 'CONFIRMED', decided_at = now(), ended_at = now()
     WHERE t.id = $1 AND t.state = $2
       AND EXISTS (SELECT FROM fences f WHERE f.gid = t.gid AND f.branch = 'books' AND f.phase = 'try' AND f.by = 'try')
       AND NOT EXISTS (SELECT FROM json_to_recordset(t.legs) AS l (type text) WHERE l.type <> 'ledger')
    RETURNING t.tenant_id, t.gid, t.legs
), fence AS (
    INSERT INTO fences (gid, branch, phase, by)
    SELECT gid, 'books', 'end', 'confirm' FROM t
    RETURNING gid
), journal AS (
    INSERT INTO journals (tenant_id, key, kind)
    SELECT t.tenant_id, t.gid, 'transfer' FROM t JOIN fence USING (gid)
    RETURNING id, tenant_id, key
), locked AS (
    -- Rows are locked by id, as everywhere; the holds follow.
    SELECT a.id, l.n, l.amount, journal.tenant_id, journal.key || '#' || l.n - 1 AS hold
      FROM journal
     CROSS JOIN t
     CROSS JOIN ROWS FROM (json_to_recordset(t.legs) AS (type text, account text, currency text, amount bigint))
           WITH ORDINALITY AS l (type, account, currency, amount, n)
      JOIN ledger_accounts a ON a.tenant_id = journal.tenant_id AND a.code = l.account AND a.currency = l.currency
     WHERE l.type = 'ledger'
     ORDER BY a.id
       FOR NO KEY UPDATE OF a
), captured AS (
    UPDATE holds h
       SET captured = h.amount
      FROM locked l
     WHERE h.tenant_id = l.tenant_id AND h.key = l.hold AND h.account_id = l.id AND h.amount = -l.amount AND h.captured = 0 AND h.released = 0
    RETURNING l.id, l.n, l.amount
), line AS MATERIALIZED (
    -- Materialized: PostgreSQL looks at the join below again when an account was changed meanwhile, and a union that stands in
    -- it directly loses rows then.
    SELECT id, n, amount FROM captured
     UNION ALL
    SELECT id, n, amount FROM locked WHERE amount > 0
), moved AS (
    -- Guard: CHECK available_not_negative and amounts_in_range.
    UPDATE ledger_accounts a
       SET balance = a.balance + line.amount, held = a.held + least(line.amount, 0), version = a.version + 1
      FROM line
     WHERE a.id = line.id
    RETURNING a.id, line.n, line.amount, a.balance, a.version
), posted AS (
    INSERT INTO entries (journal_id, line, tenant_id, account_id, amount, balance_after, account_version)
    SELECT journal.id, moved.n, journal.tenant_id, moved.id, moved.amount, moved.balance, moved.version FROM journal, moved
)
SELECT id FROM journal
