-- Guard: a name, reference or key, belongs to one transfer. No row back: read the one that has it.
INSERT INTO transfers (tenant_id, reference, idempotency_key, fingerprint, mode, legs, next_drive_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING
RETURNING id, tenant_id, gid, reference, idempotency_key, fingerprint, mode, state, failure, legs, created_at, decided_at, ended_at
