-- Guard: payment_once (tenant_id, out_trade_no). No row back: read the one that is there and compare fingerprints.
INSERT INTO payments (tenant_id, out_trade_no, amount, currency, description, metadata, account_id, method, fingerprint, expires_at, items, wants_code,
                      channel_options, sharing_plan, prepay_state, next_ask_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        $13, $14, $15, $16)
ON CONFLICT ON CONSTRAINT payment_once DO NOTHING
RETURNING id
