-- Money that an event brought to suspense, and what of it went back or is about to.
SELECT e.account_id, e.transaction_id, e.event_key, e.amount, e.currency,
       coalesce(sum(r.amount) FILTER (WHERE r.state IN ('PENDING', 'UNKNOWN')), 0)::bigint,
       coalesce(sum(r.amount) FILTER (WHERE r.state = 'SUCCEEDED'), 0)::bigint,
       count(r.id) FILTER (WHERE r.origin = 'suspense')
  FROM channel_events e
  JOIN journals j ON j.id = e.journal_id AND j.kind = 'payment_suspense'
  LEFT JOIN refunds r ON r.event_id = e.id
 WHERE e.tenant_id = $1 AND e.id = $2 AND e.state = 'DONE' AND e.kind = 'PAY_SUCCESS'
 GROUP BY e.id
