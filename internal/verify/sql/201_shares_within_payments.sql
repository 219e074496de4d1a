-- Of each payment no more is shared and refunded, done and on its way, than was paid, but for what is marked as excess; and what it says is shared is the sum of its legs.
SELECT format('%s/%s (%s): amount %s, refunded %s, shared %s, on its way %s; its legs say %s and %s', p.tenant_id, p.out_trade_no, p.state,
              p.amount, p.refunded_amount, p.shared_amount, p.shared_pending, l.shared, l.pending)
  FROM payments p
  CROSS JOIN LATERAL (SELECT coalesce(sum(x.amount - x.taken_back) FILTER (WHERE x.state = 'SUCCEEDED'), 0) AS shared,
                             coalesce(sum(x.amount) FILTER (WHERE x.state = 'PENDING'), 0) AS pending, coalesce(sum(x.excess), 0) AS excess
                        FROM shares s JOIN share_legs x ON x.share_id = s.id
                       WHERE s.payment_id = p.id) l
 WHERE p.shared_amount <> l.shared OR p.shared_pending <> l.pending OR p.shared_excess <> l.excess
    OR p.refund_pending + p.refunded_amount - p.refund_excess + p.shared_amount - p.shared_excess + p.shared_pending > p.amount
    OR (p.shared_amount + p.shared_pending > 0 AND p.state NOT IN ('PAID', 'SHIPPED', 'COMPLETED'))
 LIMIT @max
