-- The columns of payment.Payment; the caller appends its WHERE.
SELECT p.id, p.tenant_id, p.out_trade_no, p.amount, p.currency, p.description, p.metadata,
       coalesce(c.channel, '') AS channel, coalesce(c.account, '') AS account, p.method, p.state, p.refund_state,
       p.refunded_amount, p.refund_pending, p.close_reason, p.created_at, p.expires_at, p.paid_at, p.shipped_at, p.completed_at, p.closed_at,
       p.items, r.code AS redemption_code, p.account_id, p.sharing_plan, p.prepay_state, p.prepay_failure, p.channel_data,
       p.close_requested_at
  FROM payments p
  LEFT JOIN channel_accounts c ON c.id = p.account_id
  LEFT JOIN redemption_codes r ON r.payment_id = p.id
