SELECT id, tenant_id, out_trade_no, amount, currency, description, method, channel_options, sharing_plan IS NOT NULL AS shared,
       state, prepay_state, prepay_calls, channel_reference, account_id, created_at, expires_at, close_requested_at IS NOT NULL AS close_requested
  FROM payments
 WHERE id = $1
