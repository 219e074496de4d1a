-- No event is RECEIVED beyond twice its deadline, and none is PARKED without somebody being told within a day.
SELECT format('event %s (%s) is %s since %s and is looked at next at %s', id, event_key, state, state_since, next_drive_at)
  FROM channel_events
 WHERE (state = 'RECEIVED' AND state_since < @overdue)
    OR (state IN ('RECEIVED', 'PARKED') AND next_drive_at > @overdue::timestamptz + interval '25 hours')
 LIMIT @max
