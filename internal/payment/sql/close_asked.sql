-- Closes an order that the channel has closed. Guard: still PENDING, no report of a payment waits to be booked, and the
-- announcement stands as it did when the channel was asked: one that was answered since is payable there.
UPDATE payments p
   SET state = 'CLOSED', close_reason = $2, closed_at = now()
 WHERE p.id = $1 AND p.state = 'PENDING' AND p.prepay_state IS NOT DISTINCT FROM $3
   AND NOT EXISTS (SELECT FROM channel_events e
                    WHERE e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                      AND e.state = 'RECEIVED' AND e.kind = 'PAY_SUCCESS')
RETURNING p.tenant_id, p.out_trade_no
