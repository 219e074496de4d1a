-- Each suspense journal is named by one DONE event.
SELECT format('journal %s (%s) has no event', j.id, j.key)
  FROM journals j
 WHERE j.kind = 'payment_suspense'
   AND NOT EXISTS (SELECT FROM channel_events e WHERE e.journal_id = j.id AND e.state = 'DONE')
 LIMIT @max
