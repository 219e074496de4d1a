-- No event is RECEIVED beyond twice its deadline.
SELECT format('event %s (%s) is RECEIVED since %s', id, event_key, state_since)
  FROM channel_events
 WHERE state = 'RECEIVED' AND state_since < @overdue
 LIMIT @max
