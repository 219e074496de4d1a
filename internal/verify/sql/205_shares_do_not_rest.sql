-- Each sharing that has not ended is looked at in time.
SELECT format('sharing %s (%s/%s) is %s since %s and is looked at next at %s', id, tenant_id, out_order_no, state, state_since, next_drive_at)
  FROM shares
 WHERE ended_at IS NULL AND next_drive_at NOT BETWEEN @overdue::timestamptz - interval '10 minutes' AND @overdue::timestamptz + interval '10 minutes'
 LIMIT @max
