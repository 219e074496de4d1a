-- Takes open refunds whose flow should have moved them by now. Guard: the new deadline; SKIP LOCKED lets several workers share.
WITH due AS (
    SELECT id FROM refunds
     WHERE state IN ('PENDING', 'UNKNOWN') AND next_drive_at <= $1
     ORDER BY next_drive_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE refunds r SET next_drive_at = $2 FROM due WHERE r.id = due.id
    RETURNING r.*
)
SELECT r.id, r.tenant_id, r.out_refund_no, coalesce(p.out_trade_no, e.out_trade_no) AS out_trade_no, c.channel, r.amount, r.currency, r.state
  FROM claimed r
  JOIN channel_accounts c ON c.id = r.account_id
  LEFT JOIN payments p ON p.id = r.payment_id
  LEFT JOIN channel_events e ON e.id = r.event_id
 ORDER BY r.id
