-- Gives an unsettled event new facts and a new verdict. Guard: what is accepted (RECEIVED, DONE) keeps its facts.
UPDATE channel_events
   SET receipt_id = $2, kind = $3, transaction_id = $4, out_trade_no = $5, amount = $6, currency = $7, occurred_at = $8,
       state = $9, outcome = $10, reason = $11, next_drive_at = $12, drives = 0,
       state_since = $13, mismatch = $14,
       payer_amount = $15, fee = $16, out_no = $17, receiver = $18, leg_state = $19, asked_at = NULL
 WHERE id = $1 AND state IN ('PARKED', 'IGNORED')
