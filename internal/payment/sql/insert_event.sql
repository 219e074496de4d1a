-- Guard: event_once (account_id, event_key). No row back: somebody else's event is there, read it in a new statement.
INSERT INTO channel_events (tenant_id, account_id, event_key, receipt_id, kind, transaction_id, out_trade_no,
                            amount, currency, occurred_at, state, outcome, reason, conflicts_with,
                            received_at, state_since, next_drive_at, mismatch,
                            payer_amount, fee, out_no, receiver, leg_state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16, $17,
        $18, $19, $20, $21, $22)
ON CONFLICT ON CONSTRAINT event_once DO NOTHING
RETURNING id
