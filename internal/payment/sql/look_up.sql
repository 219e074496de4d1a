-- What is known of a report: the event under its key, and whether its every byte is kept. By two unique indexes, and no table more:
-- it is all that a duplicate costs.
SELECT e.id, e.state, coalesce(e.outcome, '') AS outcome, e.next_drive_at, e.kind, e.transaction_id, e.out_trade_no,
       coalesce(e.amount, 0) AS amount, coalesce(e.currency, '') AS currency, e.mismatch, e.out_no, e.receiver, e.leg_state,
       EXISTS (SELECT FROM channel_receipts r WHERE r.account_id = $1 AND r.event_key = $2 AND r.body_sha256 = $3) AS kept
  FROM channel_events e
 WHERE e.account_id = $1 AND e.event_key = $2
