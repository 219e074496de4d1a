-- Takes events whose deadline as RECEIVED has passed. Guard: the new deadline; SKIP LOCKED lets several workers share.
WITH due AS (
    SELECT id FROM channel_events
     WHERE state = 'RECEIVED' AND next_drive_at <= $1
     ORDER BY next_drive_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE channel_events e
       SET next_drive_at = $2, drives = e.drives + 1
      FROM due
     WHERE e.id = due.id
    RETURNING e.*
)
SELECT e.id, e.event_key, e.account_id, e.tenant_id, c.channel, e.kind, e.out_trade_no, e.amount, e.currency, e.drives, coalesce(p.state, '') AS order_state
  FROM claimed e
  JOIN channel_accounts c ON c.id = e.account_id
  LEFT JOIN payments p ON p.tenant_id = e.tenant_id AND p.out_trade_no = e.out_trade_no
 ORDER BY e.id
