-- Guards: share_once (tenant_id, out_order_no): no row back, read the one that is there; share_finish_once (payment_id) lets
-- one sharing finish.
INSERT INTO shares (tenant_id, out_order_no, payment_id, account_id, transaction_id, amount, currency, base, finish, fingerprint,
                    created_at, state_since, next_drive_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12)
ON CONFLICT ON CONSTRAINT share_once DO NOTHING
RETURNING id
