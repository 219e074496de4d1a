-- Takes over what nobody works on any more. Guards: no answer, and the lease has lapsed; a transaction of the former holder
-- that is about to commit has locked the row (see fence.sql), so this waits for it.
UPDATE idempotency_keys
   SET token = $5, lease_until = now() + $6::interval
 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND fingerprint = $4
   AND status IS NULL AND lease_until <= now()
