-- Every transfer.
SELECT tenant_id, coalesce(idempotency_key, '') AS key, gid, mode, state, coalesce(failure, '') AS failure FROM transfers
