-- Guard: PENDING to CLOSED once; 0 rows means that it was not PENDING. The row is locked.
UPDATE payments
   SET state = 'CLOSED', close_reason = 'channel', closed_at = now()
 WHERE id = $1 AND state = 'PENDING'
