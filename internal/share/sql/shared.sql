-- Changes what receivers have of a payment. Guard: it stays within the payment.
UPDATE payments SET shared_amount = shared_amount + $2 WHERE id = $1 AND shared_amount + $2 >= 0
