-- Frees a key under which nothing was done. Guards: the token, and no answer.
DELETE FROM idempotency_keys
 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND token = $4 AND status IS NULL
