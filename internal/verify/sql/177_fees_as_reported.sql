-- Each fee that a channel told, with the payment or after it, has the journal of that fee, and each refund of a payment that of
-- the fee that came back; and each journal of a fee has an event that told it.
SELECT format('event %s (%s) tells of a fee of %s, its journal takes %s', e.id, e.event_key, e.fee, coalesce(x.amount::text, 'nothing'))
  FROM channel_events e
  LEFT JOIN journals j ON j.tenant_id = e.tenant_id AND j.key = 'fee:' || e.account_id || ':' || e.transaction_id AND j.kind = 'payment_fee'
  LEFT JOIN LATERAL (SELECT sum(n.amount) AS amount FROM entries n JOIN ledger_accounts a ON a.id = n.account_id
                      WHERE n.journal_id = j.id AND a.code = 'fees' AND a.currency = e.currency) x ON true
 WHERE e.outcome = 'CREDITED' AND e.fee > 0 AND e.fee <= e.amount AND x.amount IS DISTINCT FROM e.fee
 UNION ALL
SELECT format('event %s (%s) tells of a fee of %s, its journal takes %s', e.id, e.event_key, e.amount, coalesce(x.amount::text, 'nothing'))
  FROM channel_events e
  LEFT JOIN journals j ON j.id = e.journal_id AND j.tenant_id = e.tenant_id AND j.key = 'fee:' || e.account_id || ':' || e.transaction_id AND j.kind = 'payment_fee'
  LEFT JOIN LATERAL (SELECT sum(n.amount) AS amount FROM entries n JOIN ledger_accounts a ON a.id = n.account_id
                      WHERE n.journal_id = j.id AND a.code = 'fees' AND a.currency = e.currency) x ON true
 WHERE e.outcome = 'FEE_BOOKED' AND x.amount IS DISTINCT FROM e.amount
 UNION ALL
SELECT format('journal %s (%s) of %s takes a fee that no event tells of', j.id, j.key, j.tenant_id)
  FROM journals j
 WHERE j.kind = 'payment_fee'
   AND NOT EXISTS (SELECT FROM channel_events e WHERE e.journal_id = j.id AND e.outcome = 'FEE_BOOKED')
   AND NOT EXISTS (SELECT FROM journals r JOIN channel_events e ON e.journal_id = r.id
                    WHERE r.tenant_id = j.tenant_id AND r.key = 'received:' || substr(j.key, 5) AND e.outcome = 'CREDITED' AND e.fee > 0)
 UNION ALL
SELECT format('refund %s of %s gave back a fee of %s, its journal gives %s', r.out_refund_no, r.tenant_id, r.fee, coalesce((-x.amount)::text, 'nothing'))
  FROM refunds r
  LEFT JOIN journals j ON j.tenant_id = r.tenant_id AND j.key = 'refund:' || r.out_refund_no || ':fee' AND j.kind = 'refund_fee'
  LEFT JOIN LATERAL (SELECT sum(n.amount) AS amount FROM entries n JOIN ledger_accounts a ON a.id = n.account_id
                      WHERE n.journal_id = j.id AND a.code = 'fees' AND a.currency = r.currency) x ON true
 WHERE r.payment_id IS NOT NULL AND r.journal_id IS NOT NULL AND r.fee > 0 AND x.amount IS DISTINCT FROM -r.fee
 LIMIT @max
