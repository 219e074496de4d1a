-- What the merchant owes for the refunds and the legs of a payment, or for those of money in suspense. Whoever asks has locked
-- the payment or the event.
SELECT r.id AS refund_id, NULL::bigint AS leg_id, 'refund:' || r.out_refund_no AS name, o.owed, r.currency
  FROM refunds r
  CROSS JOIN LATERAL (SELECT CASE WHEN r.reversal_journal_id IS NULL THEN r.receivable ELSE r.reversal_receivable END - r.settled AS owed) o
 WHERE (r.payment_id = $1 OR r.event_id = $2) AND r.journal_id IS NOT NULL AND o.owed > 0
 UNION ALL
SELECT NULL, l.id, 'share:' || s.out_order_no || ':' || l.account, l.receivable - l.settled, s.currency
  FROM share_legs l
  JOIN shares s ON s.id = l.share_id
 WHERE s.payment_id = $1 AND l.receivable > l.settled
 ORDER BY 3
