-- Deletes what has expired, a few at a time; SKIP LOCKED lets several processes share. A claim under way is left alone.
DELETE FROM idempotency_keys k
 USING (SELECT tenant_id, route, key FROM idempotency_keys
         WHERE expires_at <= now() AND lease_until <= now()
         ORDER BY expires_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED) old
 WHERE (k.tenant_id, k.route, k.key) = (old.tenant_id, old.route, old.key)
