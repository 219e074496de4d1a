-- What is known of a transaction that a fee is of: the journals of its money ($2) and of its fee ($3), the payment that it
-- paid, whether its own event ($5) waits to be booked, and whether the order that is named is there.
SELECT r.id IS NOT NULL, p.id IS NOT NULL,
       EXISTS (SELECT FROM channel_events e WHERE e.account_id = $4 AND e.event_key = $5 AND e.state = 'RECEIVED'),
       coalesce(p.amount, 0), coalesce(p.currency, ''), f.id, coalesce(x.amount, 0)::bigint,
       EXISTS (SELECT FROM payments o WHERE o.tenant_id = $1 AND o.out_trade_no = $6 AND coalesce(o.account_id, $4) = $4)
  FROM (VALUES (1)) AS one
  LEFT JOIN journals r ON r.tenant_id = $1 AND r.key = $2
  LEFT JOIN payments p ON p.credit_journal_id = r.id
  LEFT JOIN journals f ON f.tenant_id = $1 AND f.key = $3
  LEFT JOIN LATERAL (SELECT sum(n.amount) AS amount FROM entries n JOIN ledger_accounts a ON a.id = n.account_id
                      WHERE n.journal_id = f.id AND a.code = 'fees') x ON true
