-- Counts a call before it is made. Guard: the order can still be paid, its time is not over, and its announcement is open; no
-- row back: there is nothing to announce any more.
UPDATE payments
   SET prepay_calls = prepay_calls + 1
 WHERE id = $1 AND state = 'PENDING' AND prepay_state = 'PENDING' AND close_requested_at IS NULL AND expires_at > $2
RETURNING prepay_calls
