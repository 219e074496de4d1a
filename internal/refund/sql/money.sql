-- The payment that a transaction was credited to, or the event that brought its money to suspense, and its refunds.
SELECT p.id, e.id, coalesce(p.currency, e.currency, ''), r.open, r.ended
  FROM journals j
  LEFT JOIN payments p ON p.credit_journal_id = j.id
  LEFT JOIN channel_accounts c ON c.id = $2 AND p.id IS NULL
  LEFT JOIN channel_events e ON e.account_id = c.id AND e.event_key = c.channel || ':' || $3 || ':PAY_SUCCESS' AND e.journal_id = j.id
  CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state IN ('PENDING', 'UNKNOWN')) AS open,
                             count(*) FILTER (WHERE state NOT IN ('PENDING', 'UNKNOWN')) AS ended
                        FROM refunds WHERE account_id = $2 AND transaction_id = $3) r
 WHERE j.tenant_id = $1 AND j.key = 'received:' || $2::bigint || ':' || $3
