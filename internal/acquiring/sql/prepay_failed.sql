-- Guard: the announcement is open. A request that comes again opens it again.
UPDATE payments
   SET prepay_state = 'FAILED', prepay_failure = $2
 WHERE id = $1 AND prepay_state = 'PENDING'
