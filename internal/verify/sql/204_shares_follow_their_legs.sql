-- Each sharing is the sum of its legs, and where they are: at its end once none is open, and not before.
SELECT format('%s/%s is %s, %s: legs sum to %s; %s open, %s paid, %s closed', s.tenant_id, s.out_order_no, s.state, s.amount, l.total, l.open, l.paid, l.closed)
  FROM shares s
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS total, count(*) FILTER (WHERE state = 'PENDING') AS open,
                             count(*) FILTER (WHERE state = 'SUCCEEDED') AS paid, count(*) FILTER (WHERE state = 'CLOSED') AS closed
                        FROM share_legs WHERE share_id = s.id) l
 WHERE s.amount <> l.total
    OR NOT CASE s.state
             WHEN 'PENDING' THEN l.paid + l.closed = 0
             WHEN 'UNKNOWN' THEN l.paid + l.closed = 0
             WHEN 'PROCESSING' THEN l.open > 0 OR l.total = 0
             WHEN 'SUCCEEDED' THEN l.open + l.closed = 0
             WHEN 'PARTIAL' THEN l.open = 0 AND l.paid > 0 AND l.closed > 0
             ELSE l.open + l.paid = 0
           END
 LIMIT @max
