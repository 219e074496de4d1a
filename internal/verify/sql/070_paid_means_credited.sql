-- Each paid order has one credit journal, from one CREDITED event of its tenant, amount and currency; and each CREDITED event such an order.
SELECT format('%s/%s is %s: %s credited events of its amount', p.tenant_id, p.out_trade_no, p.state, count(e.id))
  FROM payments p
  LEFT JOIN channel_events e ON e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no AND e.outcome = 'CREDITED'
                            AND e.journal_id = p.credit_journal_id AND e.amount = p.amount AND e.currency = p.currency
 WHERE p.state IN ('PAID', 'SHIPPED', 'COMPLETED')
 GROUP BY p.id
HAVING count(e.id) <> 1
 UNION ALL
SELECT format('event %s (%s) is CREDITED and no paid order has its journal', e.id, e.event_key)
  FROM channel_events e
 WHERE e.outcome = 'CREDITED'
   AND NOT EXISTS (SELECT FROM payments p
                    WHERE p.tenant_id = e.tenant_id AND p.out_trade_no = e.out_trade_no AND p.credit_journal_id = e.journal_id
                      AND p.state IN ('PAID', 'SHIPPED', 'COMPLETED'))
 LIMIT @max
