-- Sets a part of a payment aside for receivers. Guard: it is paid, and shares and refunds, done and on their way, leave that much.
UPDATE payments
   SET shared_pending = shared_pending + $2
 WHERE id = $1 AND state IN ('PAID', 'SHIPPED', 'COMPLETED')
   AND amount - refund_pending - refunded_amount - shared_amount - shared_pending >= $2
