SELECT fingerprint, token = $4 AS mine, lease_until <= now() AS lapsed, expires_at <= now() AS expired, expires_at - now() AS left,
       status, content_type, location, body
  FROM idempotency_keys
 WHERE tenant_id = $1 AND route = $2 AND key = $3
