-- The journal of a refund that failed after it had succeeded, its fee and its reversal leave nothing on any account.
SELECT format('refund %s of %s and its reversal leave %s on %s', r.out_refund_no, r.tenant_id, sum(e.amount), a.code)
  FROM refunds r
  JOIN journals j ON j.tenant_id = r.tenant_id
                 AND j.key IN ('refund:' || r.out_refund_no, 'refund:' || r.out_refund_no || ':fee', 'refund:' || r.out_refund_no || ':reversed')
  JOIN entries e ON e.journal_id = j.id
  JOIN ledger_accounts a ON a.id = e.account_id
 WHERE r.reversal_journal_id IS NOT NULL
 GROUP BY r.id, a.id
HAVING sum(e.amount) <> 0
 LIMIT @max
