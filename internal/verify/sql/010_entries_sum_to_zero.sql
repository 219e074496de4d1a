-- Per currency, all entries sum to zero.
SELECT format('%s: entries in %s sum to %s', e.tenant_id, a.currency, sum(e.amount))
  FROM entries e JOIN ledger_accounts a ON a.id = e.account_id
 GROUP BY e.tenant_id, a.currency
HAVING sum(e.amount) <> 0
 LIMIT @max
