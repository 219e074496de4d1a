-- Claims a key that nobody has used. Guard: the primary key.
INSERT INTO idempotency_keys (tenant_id, route, key, fingerprint, token, lease_until, expires_at)
VALUES ($1, $2, $3, $4, $5, now() + $6::interval, now() + $7::interval)
ON CONFLICT DO NOTHING
