-- Guards: share_return_of_refund_once (refund_id, leg_id, attempt), share_return_once (tenant_id, out_return_no).
INSERT INTO share_returns (tenant_id, leg_id, refund_id, amount, state, out_return_no, attempt, created_at, state_since, next_drive_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8)
