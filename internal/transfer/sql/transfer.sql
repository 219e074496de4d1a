-- The columns of transfer.Transfer; the caller appends its WHERE.
SELECT id, tenant_id, gid, reference, idempotency_key, fingerprint, mode, state, failure, legs, created_at, decided_at, ended_at
  FROM transfers
