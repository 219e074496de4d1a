-- Each refund that succeeded has exactly one journal, of its amounts; each that failed has none, or one and its reversal; and each such journal its refund.
SELECT format('refund %s of %s is %s: journal %s, reversal %s, channel %s of %s, taken %s of %s, receivable %s of %s', r.out_refund_no, r.tenant_id, r.state,
              coalesce(j.key, 'none'), coalesce(v.key, 'none'), coalesce(l.channel, 0), r.amount, -coalesce(l.taken, 0), r.held, -coalesce(l.receivable, 0), r.receivable)
  FROM refunds r
  JOIN channel_accounts c ON c.id = r.account_id
  LEFT JOIN journals j ON j.id = r.journal_id AND j.tenant_id = r.tenant_id AND j.kind = 'refund' AND j.key = 'refund:' || r.out_refund_no
  LEFT JOIN journals v ON v.id = r.reversal_journal_id AND v.tenant_id = r.tenant_id AND v.kind = 'refund_reversal' AND v.key = 'refund:' || r.out_refund_no || ':reversed'
  LEFT JOIN LATERAL (SELECT sum(e.amount) FILTER (WHERE a.code = 'channel:' || c.channel || ':' || c.account) AS channel,
                            sum(e.amount) FILTER (WHERE a.code = CASE WHEN r.event_id IS NULL THEN 'merchant' ELSE 'suspense' END) AS taken,
                            sum(e.amount) FILTER (WHERE a.code = 'receivable') AS receivable
                       FROM entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.currency = r.currency
                      WHERE e.journal_id = j.id) l ON true
 WHERE (r.state = 'SUCCEEDED' AND (j.id IS NULL OR r.reversal_journal_id IS NOT NULL))
    OR (r.state = 'FAILED' AND ((r.journal_id IS NULL) <> (r.reversal_journal_id IS NULL) OR (r.journal_id IS NOT NULL AND (j.id IS NULL OR v.id IS NULL))))
    OR (r.state IN ('PENDING', 'UNKNOWN') AND (r.journal_id IS NOT NULL OR r.reversal_journal_id IS NOT NULL))
    OR (j.id IS NOT NULL AND (l.channel IS DISTINCT FROM r.amount OR -coalesce(l.taken, 0) <> r.held OR -coalesce(l.receivable, 0) <> r.receivable))
    OR r.held + r.receivable + r.awaited <> r.amount OR (r.state = 'SUCCEEDED' AND r.awaited > 0)
 UNION ALL
SELECT format('journal %s (%s) of %s is of no refund', j.id, j.key, j.tenant_id)
  FROM journals j
 WHERE j.kind IN ('refund', 'refund_reversal')
   AND NOT EXISTS (SELECT FROM refunds r WHERE r.tenant_id = j.tenant_id AND j.id = CASE j.kind WHEN 'refund' THEN r.journal_id ELSE r.reversal_journal_id END)
 UNION ALL
SELECT format('journal %s (%s) of %s gives back the fee of no refund that was booked', j.id, j.key, j.tenant_id)
  FROM journals j
 WHERE j.kind = 'refund_fee'
   AND NOT EXISTS (SELECT FROM refunds r WHERE r.tenant_id = j.tenant_id AND j.key = 'refund:' || r.out_refund_no || ':fee' AND r.journal_id IS NOT NULL AND r.fee IS NOT NULL)
 LIMIT @max
