-- Closes one order with items that nobody paid in time; its items are given back in the same transaction.
-- Guard: still PENDING, no channel that must close it first, and no report of a payment waits to be booked.
UPDATE payments
   SET state = 'CLOSED', close_reason = 'expired', closed_at = $1
 WHERE id = (SELECT p.id FROM payments p
              WHERE p.state = 'PENDING' AND p.expires_at <= $1 AND p.prepay_state IS NULL
                AND p.items::text <> '[]'
                AND NOT EXISTS (SELECT FROM channel_events e
                                 WHERE e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                                   AND e.state = 'RECEIVED' AND e.kind = 'PAY_SUCCESS')
              ORDER BY p.expires_at
              LIMIT 1
                FOR UPDATE OF p SKIP LOCKED)
   AND state = 'PENDING'
RETURNING tenant_id, out_trade_no
