-- Refunds that are open for so long that somebody is told; each is told again after another while.
WITH due AS (
    SELECT id FROM refunds
     WHERE state IN ('PENDING', 'UNKNOWN') AND alert_at <= $1
     ORDER BY alert_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
UPDATE refunds r SET alert_at = $2 FROM due WHERE r.id = due.id
RETURNING r.tenant_id, r.out_refund_no, r.state, r.abnormal, r.created_at, r.failure
