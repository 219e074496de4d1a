-- Each event that booked a refund, or reversed one, names the journal of a refund of its account; and each such journal one such event.
SELECT format('event %s (%s) is %s and its journal is %s', e.id, e.event_key, e.outcome, coalesce(j.key, 'none'))
  FROM channel_events e
  LEFT JOIN refunds r ON r.account_id = e.account_id AND r.tenant_id = e.tenant_id
                     AND e.journal_id = CASE e.outcome WHEN 'REFUND_REVERSED' THEN r.reversal_journal_id ELSE r.journal_id END
  LEFT JOIN journals j ON j.id = e.journal_id
 WHERE e.outcome IN ('REFUNDED', 'REFUND_ADOPTED', 'REFUND_REVERSED') AND (e.state <> 'DONE' OR r.id IS NULL)
 UNION ALL
SELECT format('journal %s (%s) of %s: %s events of its own report it', j.id, j.key, j.tenant_id, count(e.id))
  FROM journals j
  LEFT JOIN channel_events e ON e.journal_id = j.id AND e.state = 'DONE' AND e.outcome IN ('REFUNDED', 'REFUND_ADOPTED', 'REFUND_REVERSED')
 WHERE j.kind IN ('refund', 'refund_reversal')
 GROUP BY j.id
HAVING count(e.id) <> 1
 LIMIT @max
