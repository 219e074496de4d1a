-- Keeps what the payer needs. Guard: the order can still be paid; the first answer stays.
UPDATE payments
   SET prepay_state = 'READY', channel_data = $2, channel_reference = $3
 WHERE id = $1 AND state = 'PENDING' AND prepay_state = 'PENDING'
