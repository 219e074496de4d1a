-- Guard: it is open, or it has succeeded and is reversed now by the journal $3,
-- which leaves $7 owed.
UPDATE refunds
   SET state = 'FAILED', failure = $2, reversal_journal_id = $3, occurred_at = $4, state_since = $5, ended_at = $5, refund_id = $6,
       abnormal = false, next_drive_at = NULL,
       reversal_receivable = $7, settled = 0
 WHERE id = $1 AND (state IN ('PENDING', 'UNKNOWN') AND $3::bigint IS NULL OR state = 'SUCCEEDED' AND $3::bigint IS NOT NULL)
