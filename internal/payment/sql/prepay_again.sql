-- Opens an announcement again that the channel refused. Guard: it was refused, and the order can still be paid.
UPDATE payments
   SET prepay_state = 'PENDING', prepay_failure = NULL
 WHERE tenant_id = $1 AND out_trade_no = $2 AND state = 'PENDING' AND prepay_state = 'FAILED' AND close_requested_at IS NULL
