-- What goes back of money in suspense stays within what the event brought, but for what is marked as excess.
SELECT format('event %s (%s) brought %s to suspense, refunds of it %s, excess %s', e.id, e.event_key, e.amount, sum(r.amount), sum(r.excess))
  FROM refunds r
  JOIN channel_events e ON e.id = r.event_id
 WHERE r.state <> 'FAILED'
 GROUP BY e.id
HAVING sum(r.amount) - sum(r.excess) > e.amount
    OR NOT EXISTS (SELECT FROM journals j WHERE j.id = e.journal_id AND j.kind = 'payment_suspense')
 LIMIT @max
