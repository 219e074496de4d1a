-- Each open refund has its amount on hold, but for what becomes a receivable, and no ended one holds anything.
SELECT format('refund %s of %s is %s: %s should be on hold on %s, open hold %s on %s', r.out_refund_no, r.tenant_id, r.state, r.held,
              CASE WHEN r.event_id IS NULL THEN 'merchant' ELSE 'suspense' END, coalesce(h.amount - h.captured - h.released, 0), coalesce(a.code, 'no account'))
  FROM refunds r
  LEFT JOIN holds h ON h.tenant_id = r.tenant_id AND h.key = 'refund:' || r.out_refund_no
  LEFT JOIN ledger_accounts a ON a.id = h.account_id
 WHERE CASE WHEN r.state IN ('PENDING', 'UNKNOWN') THEN r.held ELSE 0 END <> coalesce(h.amount - h.captured - h.released, 0)
    OR (h.id IS NOT NULL AND (a.code <> CASE WHEN r.event_id IS NULL THEN 'merchant' ELSE 'suspense' END OR a.currency <> r.currency))
 UNION ALL
SELECT format('hold %s (%s) of %s is of no refund', h.id, h.key, h.tenant_id)
  FROM holds h
 WHERE h.key LIKE 'refund:%'
   AND NOT EXISTS (SELECT FROM refunds r WHERE r.tenant_id = h.tenant_id AND h.key = 'refund:' || r.out_refund_no)
 LIMIT @max
