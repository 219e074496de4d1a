-- The columns of payment.Event; the caller appends its WHERE.
SELECT e.id, e.tenant_id, e.account_id, c.channel, c.account, e.event_key, e.receipt_id, e.kind, e.transaction_id,
       e.out_trade_no, e.amount, e.currency, e.payer_amount, e.fee, e.out_no, e.receiver, e.leg_state, e.occurred_at, e.mismatch, e.state, e.outcome, e.reason, e.conflicts_with,
       j.key AS journal_key, e.received_at, e.state_since, e.next_drive_at, e.asked_at
  FROM channel_events e
  JOIN channel_accounts c ON c.id = e.account_id
  LEFT JOIN journals j ON j.id = e.journal_id
