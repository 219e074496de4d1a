-- A journal, its entries and their accounts belong to one tenant, and its kind is one that paylatch books.
SELECT format('journal %s of %s: entry %s of %s on account %s of %s', j.id, j.tenant_id, e.line, e.tenant_id, e.account_id, coalesce(a.tenant_id, 'nobody'))
  FROM entries e
  LEFT JOIN journals j ON j.id = e.journal_id
  LEFT JOIN ledger_accounts a ON a.id = e.account_id
 WHERE e.tenant_id IS DISTINCT FROM j.tenant_id OR e.tenant_id IS DISTINCT FROM a.tenant_id
 UNION ALL
SELECT format('journal %s (%s) is of the unknown kind %s', id, key, kind)
  FROM journals
 WHERE kind NOT IN ('payment_credit', 'payment_suspense', 'payment_fee', 'refund', 'refund_fee', 'refund_reversal', 'posting', 'transfer', 'profit_share', 'share_return', 'share_owed', 'receivable_settled')
 LIMIT @max
