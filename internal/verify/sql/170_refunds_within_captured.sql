-- Each payment's refund numbers are the sums of its refunds, and pending and done stay within what was captured but for what is marked as excess.
SELECT format('%s/%s captured %s: pending %s (refunds say %s), refunded %s (%s), excess %s (%s), %s', p.tenant_id, p.out_trade_no, p.amount,
              p.refund_pending, s.pending, p.refunded_amount, s.done, p.refund_excess, s.excess, p.refund_state)
  FROM payments p
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount) FILTER (WHERE state IN ('PENDING', 'UNKNOWN')), 0) AS pending,
                             coalesce(sum(amount) FILTER (WHERE state = 'SUCCEEDED'), 0) AS done,
                             coalesce(sum(excess) FILTER (WHERE state = 'SUCCEEDED'), 0) AS excess
                        FROM refunds WHERE payment_id = p.id) s
 WHERE p.refund_pending <> s.pending OR p.refunded_amount <> s.done OR p.refund_excess <> s.excess
    OR p.refund_pending + p.refunded_amount - p.refund_excess > p.amount
    OR (p.state NOT IN ('PAID', 'SHIPPED', 'COMPLETED') AND s.pending + s.done > 0)
    OR p.refund_state <> CASE WHEN s.done = 0 THEN 'NONE' WHEN s.done < p.amount THEN 'PARTIAL' ELSE 'FULL' END
 LIMIT @max
