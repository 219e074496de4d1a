-- What of a payment is neither refunded nor shared, done and on its way, but for what is beyond it. The payment is locked.
SELECT amount - refund_pending - (refunded_amount - refund_excess) - (shared_amount - shared_excess) - shared_pending FROM payments WHERE id = $1
