-- Guard: the primary key keeps one row per distinct body.
INSERT INTO channel_receipts (tenant_id, account_id, event_key, body_sha256, body, received_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account_id, event_key, body_sha256) DO NOTHING
RETURNING id
