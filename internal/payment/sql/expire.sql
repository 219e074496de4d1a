-- Closes orders without items that nobody paid in time, many at once. Guard: still PENDING, and no channel that must close it first. A report of a payment that
-- waits to be booked keeps the order open, as far as this statement sees it; one that commits meanwhile is a late payment.
UPDATE payments
   SET state = 'CLOSED', close_reason = 'expired', closed_at = $1
 WHERE id IN (SELECT p.id FROM payments p
               WHERE p.state = 'PENDING' AND p.expires_at <= $1 AND p.prepay_state IS NULL
                 AND p.items::text = '[]'
                 AND NOT EXISTS (SELECT FROM channel_events e
                                  WHERE e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                                    AND e.state = 'RECEIVED' AND e.kind = 'PAY_SUCCESS')
               ORDER BY p.expires_at
               LIMIT $2
                 FOR UPDATE OF p SKIP LOCKED)
   AND state = 'PENDING'
RETURNING id
