-- No transfer is undecided beyond twice its deadline, and none is looked at later than its plan says.
SELECT format('transfer %s (%s) is %s since %s and is looked at next at %s', id, gid, state, coalesce(decided_at, created_at), next_drive_at)
  FROM transfers
 WHERE ended_at IS NULL
   AND ((state = 'TRYING' AND created_at < @overdue) OR next_drive_at > @overdue::timestamptz + interval '10 minutes')
 LIMIT @max
