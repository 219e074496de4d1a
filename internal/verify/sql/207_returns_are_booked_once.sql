-- Each return has the journals that its state says, of its amount and no other; and each such journal its return.
SELECT format('return %s of %s is %s, %s: came back by %s, owed by %s, not owed any more by %s', r.out_return_no, r.tenant_id, r.state, r.amount,
              coalesce(b.key, 'none'), coalesce(o.key, 'none'), coalesce(v.key, 'none'))
  FROM share_returns r
  LEFT JOIN journals b ON b.id = r.journal_id AND b.tenant_id = r.tenant_id AND (b.kind = 'share_return' OR b.kind = 'receivable_settled' AND r.state = 'CLEARED')
                      AND (SELECT sum(amount) FILTER (WHERE amount > 0) FROM entries WHERE journal_id = b.id) = r.amount
  LEFT JOIN journals o ON o.id = r.owed_journal_id AND o.tenant_id = r.tenant_id AND o.kind = 'share_owed'
                      AND (SELECT sum(amount) FILTER (WHERE amount > 0) FROM entries WHERE journal_id = o.id) = r.amount
  LEFT JOIN journals v ON v.tenant_id = r.tenant_id AND v.key = o.key || ':reversed'
 WHERE (b.id IS NOT NULL) <> (r.state IN ('RETURNED', 'CLEARED'))
    OR CASE r.state WHEN 'VOID' THEN (o.id IS NOT NULL) <> (v.id IS NOT NULL) ELSE (o.id IS NOT NULL) <> (r.state IN ('OWED', 'CLEARED')) OR v.id IS NOT NULL END
 UNION ALL
SELECT format('journal %s (%s) of %s is of no return', j.id, j.key, j.tenant_id)
  FROM journals j
 WHERE j.kind IN ('share_return', 'share_owed')
   AND NOT EXISTS (SELECT FROM share_returns r
                    WHERE r.tenant_id = j.tenant_id
                      AND (j.id IN (r.journal_id, r.owed_journal_id)
                           OR j.key = (SELECT o.key || ':reversed' FROM journals o WHERE o.id = r.owed_journal_id)))
 LIMIT @max
