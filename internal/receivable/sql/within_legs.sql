-- The same of legs that were paid after all: what of them was beyond the payment, and is within it by now.
WITH free AS (
    SELECT id, amount - refund_pending - (refunded_amount - refund_excess) - (shared_amount - shared_excess) - shared_pending AS amount
      FROM payments WHERE id = $1 AND shared_excess > 0
), within AS (
    SELECT l.id, least(l.excess, free.amount - coalesce(sum(l.excess) OVER (ORDER BY l.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS part
      FROM free JOIN shares s ON s.payment_id = free.id JOIN share_legs l ON l.share_id = s.id
     WHERE l.excess > 0
), less AS (
    UPDATE share_legs l SET excess = l.excess - within.part FROM within WHERE l.id = within.id AND within.part > 0 RETURNING within.part
)
UPDATE payments SET shared_excess = shared_excess - (SELECT sum(part) FROM less)::bigint
 WHERE id = $1 AND EXISTS (SELECT FROM less)
