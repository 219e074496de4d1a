-- Money that came to suspense since its tenant wants such money back with its payer, that nobody has tried to give back, and that
-- can go: what cannot is told of once and does not stand in the way of the rest.
SELECT e.tenant_id, e.id, e.outcome
  FROM tenants t
  JOIN channel_events e ON e.tenant_id = t.tenant_id AND e.state_since >= t.suspense_refund_since
  JOIN journals j ON j.id = e.journal_id AND j.kind = 'payment_suspense'
 WHERE t.suspense_refund = 'automatic'
   AND e.kind = 'PAY_SUCCESS' AND e.state = 'DONE' AND e.outcome <> 'CREDITED' AND e.account_id = ANY($1)
   AND e.return_refused = ''
   AND NOT EXISTS (SELECT FROM refunds r WHERE r.event_id = e.id)
 ORDER BY e.id
 LIMIT $2
