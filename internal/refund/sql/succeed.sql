-- Guard: it has not succeeded, or it failed without ever having been booked. The row is locked and its journal is posted.
UPDATE refunds
   SET state = 'SUCCEEDED', journal_id = $2, occurred_at = $3, state_since = $4, ended_at = $4, refund_id = $5, fee = $6,
       abnormal = false, failure = '', next_drive_at = NULL
 WHERE id = $1 AND state IN ('PENDING', 'UNKNOWN', 'FAILED') AND journal_id IS NULL
