-- What is taken back of each leg is the sum of its returns, and what an open refund awaits is the sum of those that are asked for.
SELECT format('leg %s (%s): taken back %s, returns %s', l.id, l.account, l.taken_back, r.total)
  FROM share_legs l
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount) FILTER (WHERE state <> 'VOID'), 0) AS total FROM share_returns WHERE leg_id = l.id) r
 WHERE l.taken_back <> r.total
 UNION ALL
SELECT format('refund %s of %s is %s and awaits %s, returns that are asked for %s', f.out_refund_no, f.tenant_id, f.state, f.awaited, r.total)
  FROM refunds f
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount) FILTER (WHERE state = 'PENDING' AND NOT collecting), 0) AS total FROM share_returns WHERE refund_id = f.id) r
 WHERE (f.state IN ('PENDING', 'UNKNOWN') AND (f.awaited < r.total OR f.calls > 0 AND f.awaited > 0)) OR (f.state IN ('SUCCEEDED', 'FAILED') AND r.total > 0)
 LIMIT @max
