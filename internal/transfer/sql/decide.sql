-- Makes the decision. Guard: state TRYING decides it once; no row back means that it was made before.
UPDATE transfers
   SET state = $2, failure = $3, decided_at = now(), next_drive_at = $4
 WHERE id = $1 AND state = 'TRYING'
RETURNING id, tenant_id, gid, reference, idempotency_key, fingerprint, mode, state, failure, legs, created_at, decided_at, ended_at
