-- Each paid order has exactly one credit journal, of its amount, from one CREDITED event.
SELECT format('%s/%s is %s: %s credited events, %s credited', p.tenant_id, p.out_trade_no, p.state, count(e.id), coalesce(sum(n.amount), 0))
  FROM payments p
  LEFT JOIN channel_events e ON e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                            AND e.outcome = 'CREDITED' AND e.journal_id = p.credit_journal_id
  LEFT JOIN LATERAL (SELECT x.amount FROM entries x JOIN ledger_accounts a ON a.id = x.account_id
                      WHERE x.journal_id = e.journal_id AND a.code = 'merchant' AND a.currency = p.currency) n ON true
 WHERE p.state IN ('PAID', 'SHIPPED', 'COMPLETED')
 GROUP BY p.id
HAVING count(e.id) <> 1 OR sum(n.amount) IS DISTINCT FROM p.amount
 LIMIT @max
