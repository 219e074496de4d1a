-- The journals of a refund that failed after it had succeeded, its fee, its reversal and what had settled it leave nothing, but what the merchant owes and what it had paid outside.
SELECT format('refund %s of %s and its reversal leave %s on %s, the shortage is %s', r.out_refund_no, r.tenant_id, sum(e.amount), a.code, r.reversal_receivable)
  FROM refunds r
  JOIN journals j ON j.tenant_id = r.tenant_id
                 AND (j.key IN ('refund:' || r.out_refund_no, 'refund:' || r.out_refund_no || ':fee', 'refund:' || r.out_refund_no || ':reversed')
                      OR j.id IN (SELECT journal_id FROM settlements WHERE refund_id = r.id AND journal_id < r.reversal_journal_id))
  JOIN entries e ON e.journal_id = j.id
  JOIN ledger_accounts a ON a.id = e.account_id
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS outside FROM settlements
                       WHERE refund_id = r.id AND journal_id < r.reversal_journal_id AND how = 'outside') s
 WHERE r.reversal_journal_id IS NOT NULL
 GROUP BY r.id, a.id, s.outside
HAVING sum(e.amount) <> CASE a.code WHEN 'receivable' THEN -r.reversal_receivable WHEN 'merchant' THEN r.reversal_receivable + s.outside
                                    WHEN 'settled:outside' THEN -s.outside ELSE 0 END
 LIMIT @max
