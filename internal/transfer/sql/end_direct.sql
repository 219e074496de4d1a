-- Ends a transfer that had no flow. Guard: it is not decided.
UPDATE transfers
   SET state = $2, failure = $3, decided_at = now(), ended_at = now()
 WHERE id = $1 AND state = 'TRYING'
RETURNING id, tenant_id, gid, reference, idempotency_key, fingerprint, mode, state, failure, legs, created_at, decided_at, ended_at
