-- Stores the wish to close an order that its channel must close first. Guard: still PENDING, and no report of a payment waits
-- to be booked.
UPDATE payments p
   SET close_requested_at = coalesce(p.close_requested_at, now()), next_ask_at = now()
 WHERE p.tenant_id = $1 AND p.out_trade_no = $2 AND p.state = 'PENDING' AND p.prepay_state IS NOT NULL
   AND NOT EXISTS (SELECT FROM channel_events e
                    WHERE e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                      AND e.state = 'RECEIVED' AND e.kind = 'PAY_SUCCESS')
