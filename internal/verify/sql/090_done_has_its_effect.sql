-- Each DONE event has its effect: a journal where money came, a closed order, or a recorded reason.
SELECT format('event %s (%s) is DONE %s without its effect', e.id, e.event_key, e.outcome)
  FROM channel_events e
 WHERE e.state = 'DONE'
   AND NOT CASE
         WHEN e.kind IN ('PAY_SUCCESS', 'PAY_FEE') THEN e.journal_id IS NOT NULL
         WHEN e.outcome = 'CLOSED' THEN EXISTS (SELECT FROM payments p
                                                 WHERE p.tenant_id = e.tenant_id AND p.out_trade_no = e.out_trade_no AND p.state = 'CLOSED')
         ELSE e.reason <> ''
       END
 LIMIT @max
