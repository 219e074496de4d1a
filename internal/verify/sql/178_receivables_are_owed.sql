-- The receivable of each tenant is what its refunds and the legs that were paid after all owe; and what of these is settled is the sum of its settlements, each with its journal.
WITH debts AS (
    SELECT tenant_id, currency, CASE WHEN reversal_journal_id IS NULL THEN receivable ELSE reversal_receivable END - settled AS owed
      FROM refunds WHERE journal_id IS NOT NULL
     UNION ALL
    SELECT s.tenant_id, s.currency, l.receivable - l.settled FROM share_legs l JOIN shares s ON s.id = l.share_id WHERE l.receivable > 0
), owed AS (
    SELECT tenant_id, currency, sum(owed) AS owed FROM debts GROUP BY 1, 2
), kept AS (
    SELECT a.tenant_id, a.currency, -sum(e.amount) AS owed
      FROM ledger_accounts a
      JOIN entries e ON e.account_id = a.id
      JOIN journals j ON j.id = e.journal_id AND j.kind IN ('refund', 'refund_reversal', 'profit_share', 'receivable_settled')
     WHERE a.code = 'receivable'
     GROUP BY 1, 2
)
SELECT format('%s owes %s in %s, its journals say %s', tenant_id, coalesce(o.owed, 0), currency, coalesce(k.owed, 0))
  FROM owed o FULL JOIN kept k USING (tenant_id, currency)
 WHERE coalesce(o.owed, 0) <> coalesce(k.owed, 0)
 UNION ALL
SELECT format('refund %s of %s: settled %s, settlements %s', r.out_refund_no, r.tenant_id, r.settled, s.amount)
  FROM refunds r
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS amount FROM settlements
                       WHERE refund_id = r.id AND journal_id > coalesce(r.reversal_journal_id, 0)) s
 WHERE r.settled <> s.amount
 UNION ALL
SELECT format('leg %s (%s): settled %s, settlements %s', l.id, l.account, l.settled, s.amount)
  FROM share_legs l
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS amount FROM settlements WHERE leg_id = l.id) s
 WHERE l.settled <> s.amount
 UNION ALL
SELECT format('settlement %s of %s: %s %s, its journal %s moves %s', s.id, s.tenant_id, s.amount, s.currency, coalesce(j.key, 'none'), coalesce(x.amount, 0))
  FROM settlements s
  LEFT JOIN journals j ON j.id = s.journal_id AND j.tenant_id = s.tenant_id AND j.kind = 'receivable_settled'
  LEFT JOIN LATERAL (SELECT sum(e.amount) FILTER (WHERE e.amount > 0) AS amount
                       FROM entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.currency = s.currency WHERE e.journal_id = j.id) x ON true
 WHERE x.amount IS DISTINCT FROM s.amount
 UNION ALL
SELECT format('journal %s (%s) of %s is of no settlement', j.id, j.key, j.tenant_id)
  FROM journals j
 WHERE j.kind = 'receivable_settled' AND NOT EXISTS (SELECT FROM settlements s WHERE s.journal_id = j.id)
 LIMIT @max
