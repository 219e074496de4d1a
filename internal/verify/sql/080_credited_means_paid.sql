-- Each credit journal belongs to one paid order.
SELECT format('journal %s (%s) credits no paid order', j.id, j.key)
  FROM journals j
 WHERE j.kind = 'payment_credit'
   AND NOT EXISTS (SELECT FROM payments p
                    WHERE p.credit_journal_id = j.id AND p.state IN ('PAID', 'SHIPPED', 'COMPLETED'))
 LIMIT @max
