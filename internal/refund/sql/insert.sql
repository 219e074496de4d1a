-- Guard: refund_once (tenant_id, out_refund_no). No row back: the number is taken, and the caller rolls back.
INSERT INTO refunds (tenant_id, out_refund_no, origin, payment_id, event_id, account_id, transaction_id, refund_id,
                     amount, currency, reason, held, asks, confirm_first, created_at, state_since, next_drive_at, alert_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16, $17)
ON CONFLICT ON CONSTRAINT refund_once DO NOTHING
RETURNING id
