-- What takes journals back: each account's part of them, the other way round.
SELECT a.code, a.currency, -sum(e.amount)::bigint
  FROM journals j
  JOIN entries e ON e.journal_id = j.id
  JOIN ledger_accounts a ON a.id = e.account_id
 WHERE j.tenant_id = $1 AND j.key = ANY($2)
 GROUP BY a.code, a.currency
