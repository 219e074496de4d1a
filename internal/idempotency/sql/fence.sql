-- Holds a claim until the transaction ends. Guard: the token; no row means that another has taken the key over.
SELECT FROM idempotency_keys
 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND token = $4
   FOR SHARE
