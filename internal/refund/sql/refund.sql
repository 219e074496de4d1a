-- The columns of refund.Refund; the caller appends its WHERE.
SELECT r.id, r.tenant_id, r.out_refund_no, r.origin, r.payment_id, r.event_id, coalesce(p.out_trade_no, e.out_trade_no) AS out_trade_no,
       r.account_id, c.channel, c.account, r.transaction_id, r.refund_id, r.amount, r.currency, r.reason, r.state, r.abnormal, r.failure,
       r.awaited, r.held, r.receivable, r.excess, r.settled, r.reversal_receivable AS shortage, r.fee, r.asks, r.confirm_first, r.calls, r.channel_state, r.asked_at, r.occurred_at,
       r.journal_id, j.key AS journal_key, v.key AS reversal_key, r.created_at, r.state_since, r.ended_at
  FROM refunds r
  JOIN channel_accounts c ON c.id = r.account_id
  LEFT JOIN payments p ON p.id = r.payment_id
  LEFT JOIN channel_events e ON e.id = r.event_id
  LEFT JOIN journals j ON j.id = r.journal_id
  LEFT JOIN journals v ON v.id = r.reversal_journal_id
