-- A receiver was paid though nothing was set aside for it. What of that is beyond the payment says so.
UPDATE payments SET shared_amount = shared_amount + $2, shared_excess = shared_excess + $3 WHERE id = $1
