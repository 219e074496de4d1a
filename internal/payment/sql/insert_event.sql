-- Guard: event_once (account_id, event_key). No row back: somebody else's event is there, read it in a new statement. The receipt,
-- which is put into the braces, is there already or made by the same statement.
WITH receipt AS (
    {receipt}
)
INSERT INTO channel_events (tenant_id, account_id, event_key, receipt_id, kind, transaction_id, out_trade_no,
                            amount, currency, occurred_at, state, outcome, reason, conflicts_with,
                            received_at, state_since, next_drive_at, mismatch,
                            payer_amount, fee, out_no, receiver, leg_state)
SELECT $1, $2, $3, receipt.id, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16, $17, $18, $19, $20, $21, $22
  FROM receipt
ON CONFLICT ON CONSTRAINT event_once DO NOTHING
RETURNING id
