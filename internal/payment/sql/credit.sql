-- Books the common payment in one statement, which is a transaction of its own: it is what its order, PENDING, waits for, tells no
-- fee, and takes no goods and no code. A row back: it is credited. No row: nothing was done, and step by step it is told what it
-- is. Any error leaves nothing done as well.
-- Guards: event RECEIVED and order PENDING, both locked; UNIQUE (tenant_id, key) on journals; a missing account leaves a journal
-- that does not balance; the division fails all of it unless what is booked is settled.
-- $2 and $3 are RECEIVED and PENDING: as literals they would let the planner walk small indexes, whose dead rows it does not count.
WITH ev AS (
    SELECT e.id, e.tenant_id, e.account_id, e.out_trade_no, e.amount, e.currency,
           'received:' || e.account_id || ':' || e.transaction_id AS journal_key, 'channel:' || c.channel || ':' || c.account AS channel
      FROM channel_events e JOIN channel_accounts c ON c.id = e.account_id
     WHERE e.id = $1 AND e.state = $2 AND e.kind = 'PAY_SUCCESS' AND e.mismatch = '' AND e.fee IS NULL
       FOR UPDATE OF e
), due AS (
    SELECT p.id, ev.id AS event_id, ev.tenant_id, ev.amount, ev.currency, ev.journal_key, ev.channel
      FROM ev JOIN payments p ON p.tenant_id = ev.tenant_id AND p.out_trade_no = ev.out_trade_no
     WHERE p.state = $3 AND p.amount = ev.amount AND p.currency = ev.currency
       AND (p.account_id IS NULL OR p.account_id = ev.account_id)
       AND json_array_length(p.items) = 0 AND NOT p.wants_code
       FOR UPDATE OF p
), journal AS (
    INSERT INTO journals (tenant_id, key, kind)
    SELECT tenant_id, journal_key, 'payment_credit' FROM due
    ON CONFLICT ON CONSTRAINT journal_once DO NOTHING
    RETURNING id
), locked AS (
    -- Rows are locked by id, as everywhere.
    SELECT a.id, l.line, l.amount, due.tenant_id
      FROM journal
     CROSS JOIN due
     CROSS JOIN LATERAL (VALUES (1, due.channel, -due.amount), (2, 'merchant', due.amount)) AS l (line, code, amount)
      JOIN ledger_accounts a ON a.tenant_id = due.tenant_id AND a.code = l.code AND a.currency = due.currency
     ORDER BY a.id
       FOR UPDATE OF a
), moved AS (
    -- Guard: CHECK available_not_negative and amounts_in_range.
    UPDATE ledger_accounts a
       SET balance = a.balance + locked.amount, version = a.version + 1
      FROM locked
     WHERE a.id = locked.id
    RETURNING a.id, locked.line, locked.amount, locked.tenant_id, a.balance, a.version
), posted AS (
    INSERT INTO entries (journal_id, line, tenant_id, account_id, amount, balance_after, account_version)
    SELECT journal.id, moved.line, moved.tenant_id, moved.id, moved.amount, moved.balance, moved.version FROM journal, moved
), paid AS (
    UPDATE payments p
       SET state = 'PAID', paid_at = now(), credit_journal_id = journal.id
      FROM journal, due
     WHERE p.id = due.id AND p.state = $3
    RETURNING p.id
), settled AS (
    UPDATE channel_events e
       SET state = 'DONE', outcome = 'CREDITED', reason = '', journal_id = journal.id, state_since = $4, next_drive_at = $5
      FROM journal, due, paid
     WHERE e.id = due.event_id AND e.state = $2
    RETURNING e.tenant_id, e.out_trade_no
)
SELECT settled.tenant_id, settled.out_trade_no, 1 / (SELECT count(*) FROM settled) AS whole
  FROM journal LEFT JOIN settled ON true
