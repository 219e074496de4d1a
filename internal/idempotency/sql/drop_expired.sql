DELETE FROM idempotency_keys
 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND expires_at <= now() AND lease_until <= now()
