-- Keeps the answer. Guards: the token, and no answer yet.
UPDATE idempotency_keys
   SET status = $5, content_type = $6, location = $7, body = $8
 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND token = $4 AND status IS NULL
