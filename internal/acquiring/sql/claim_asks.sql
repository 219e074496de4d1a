-- Takes orders whose channel is to be asked: long unpaid, expired, or to be closed. Guard: the new time; SKIP LOCKED lets
-- several workers share.
WITH due AS (
    SELECT id FROM payments
     WHERE state = 'PENDING' AND next_ask_at <= $1
     ORDER BY next_ask_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
UPDATE payments p
   SET next_ask_at = CASE WHEN p.close_requested_at IS NULL AND p.expires_at > $1 THEN p.expires_at ELSE $2 END
  FROM due, channel_accounts c
 WHERE p.id = due.id AND c.id = p.account_id
RETURNING p.id, p.tenant_id, p.out_trade_no, c.channel, least(p.expires_at, p.close_requested_at) AS ends_at
