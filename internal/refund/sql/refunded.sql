-- Guard: the constraints of payments hold what is reserved and done within the captured amount, but for what is marked as excess.
UPDATE payments
   SET refund_pending = refund_pending + $2, refunded_amount = refunded_amount + $3, refund_excess = refund_excess + $4,
       refund_state = CASE WHEN refunded_amount + $3 = 0 THEN 'NONE' WHEN refunded_amount + $3 < amount THEN 'PARTIAL' ELSE 'FULL' END
 WHERE id = $1
