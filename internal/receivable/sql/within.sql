-- What of refunds was beyond the captured amount when they were booked, and is within it since others failed: oldest first.
-- Guard: no more than has become free; the constraints of payments hold the rest.
WITH free AS (
    SELECT id, amount - refund_pending - (refunded_amount - refund_excess) - (shared_amount - shared_excess) - shared_pending AS amount
      FROM payments WHERE id = $1 AND refund_excess > 0
), within AS (
    SELECT r.id, least(r.excess, free.amount - coalesce(sum(r.excess) OVER (ORDER BY r.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS part
      FROM refunds r JOIN free ON free.id = r.payment_id
     WHERE r.state = 'SUCCEEDED' AND r.excess > 0
), less AS (
    UPDATE refunds r SET excess = r.excess - within.part FROM within WHERE r.id = within.id AND within.part > 0 RETURNING within.part
)
UPDATE payments SET refund_excess = refund_excess - (SELECT sum(part) FROM less)::bigint
 WHERE id = $1 AND EXISTS (SELECT FROM less)
