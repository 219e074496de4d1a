-- Each journal has entries, and they sum to zero per currency.
SELECT format('journal %s (%s) is off by %s', j.id, j.key, coalesce(sum(e.amount)::text, 'all: it has no entries'))
  FROM journals j
  LEFT JOIN entries e ON e.journal_id = j.id
  LEFT JOIN ledger_accounts a ON a.id = e.account_id
 GROUP BY j.id, j.key, a.currency
HAVING sum(e.amount) IS DISTINCT FROM 0
 LIMIT @max
