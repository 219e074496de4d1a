-- Ends the lease without an answer: the same request may be worked on anew, at once. Guards: the token, and no answer yet.
UPDATE idempotency_keys
   SET token = '', lease_until = now()
 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND token = $4 AND status IS NULL
