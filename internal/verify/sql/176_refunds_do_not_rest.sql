-- Each open refund whose channel can be asked is looked after in time, and somebody is told of each that stays open.
SELECT format('refund %s of %s is %s since %s, is looked at next at %s and told of at %s', out_refund_no, tenant_id, state, state_since, next_drive_at, alert_at)
  FROM refunds
 WHERE state IN ('PENDING', 'UNKNOWN')
   AND ((asks AND (next_drive_at IS NULL OR next_drive_at < @overdue OR next_drive_at > @overdue::timestamptz + interval '25 hours'))
        OR alert_at > @overdue::timestamptz + interval '25 hours')
 LIMIT @max
