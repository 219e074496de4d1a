-- Guard: PENDING to PAID once; 0 rows means that it was not PENDING. The row is locked and its journal is posted.
UPDATE payments
   SET state = 'PAID', paid_at = now(), credit_journal_id = $2
 WHERE id = $1 AND state = 'PENDING'
