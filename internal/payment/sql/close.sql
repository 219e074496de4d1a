-- Guard: still PENDING, and no channel that must close it first. A report of a payment that waits to be booked keeps the order open, as far as this statement sees
-- it; one that commits meanwhile is booked as a late payment.
UPDATE payments p
   SET state = 'CLOSED', close_reason = 'merchant', closed_at = now()
 WHERE p.tenant_id = $1 AND p.out_trade_no = $2 AND p.state = 'PENDING' AND p.prepay_state IS NULL
   AND NOT EXISTS (SELECT FROM channel_events e
                    WHERE e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                      AND e.state = 'RECEIVED' AND e.kind = 'PAY_SUCCESS')
