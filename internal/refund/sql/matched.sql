-- Parked events whose refund is there by now, or the payment of which they tell a refund that was made at the channel: whoever
-- made the row died before it could look for them, or the payment's own event came later.
SELECT e.id
  FROM channel_events e
 WHERE e.state = 'PARKED' AND e.outcome = 'UNKNOWN_REFUND'
   AND (EXISTS (SELECT FROM refunds r
                 WHERE r.tenant_id = e.tenant_id AND r.account_id = e.account_id AND e.out_no <> '' AND r.out_refund_no = e.out_no)
     OR EXISTS (SELECT FROM channel_accounts c
                  JOIN refunds r ON r.account_id = c.id AND r.transaction_id = e.transaction_id
                                AND r.refund_id = replace(replace(e.event_key, c.channel || ':', ''), ':' || e.kind, '')
                 WHERE c.id = e.account_id AND r.refund_id <> '' AND e.kind <> 'REFUND_HINT')
     OR (e.kind = 'REFUND_HINT' AND e.out_no = '' AND EXISTS (SELECT FROM refunds r WHERE r.account_id = e.account_id AND r.transaction_id = e.transaction_id))
     OR ((e.kind = 'REFUND_SUCCESS' AND e.amount IS NOT NULL OR e.kind = 'REFUND_HINT' AND e.out_no <> '')
         AND EXISTS (SELECT FROM journals j
                      WHERE j.tenant_id = e.tenant_id AND j.key = 'received:' || e.account_id || ':' || e.transaction_id
                        AND e.transaction_id <> ''))
     OR EXISTS (SELECT FROM channel_accounts c JOIN channel_events p ON p.account_id = c.id AND p.event_key = c.channel || ':' || e.transaction_id || ':PAY_SUCCESS'
                 WHERE c.id = e.account_id AND p.outcome = 'FOREIGN'))
 ORDER BY e.id
 LIMIT $1
