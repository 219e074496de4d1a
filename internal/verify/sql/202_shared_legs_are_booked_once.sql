-- Each leg that was paid has one journal, of its amount, from the merchant, and what that had too little of as a receivable, to its receiver; no other leg has one; and each such journal is of one leg.
SELECT format('leg %s (%s/%s, %s) is %s, %s: %s journals of its own', l.id, s.tenant_id, s.out_order_no, l.account, l.state, l.amount, count(j.id))
  FROM share_legs l
  JOIN shares s ON s.id = l.share_id
  LEFT JOIN journals j ON j.tenant_id = s.tenant_id AND j.kind = 'profit_share' AND j.key = 'share:' || s.out_order_no || ':' || l.account
                      AND j.id = l.journal_id
                      AND (SELECT coalesce(sum(e.amount) FILTER (WHERE a.code = 'merchant'), 0) = l.receivable - l.amount
                                  AND coalesce(sum(e.amount) FILTER (WHERE a.code = 'receivable'), 0) = -l.receivable
                             FROM entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.currency = s.currency WHERE e.journal_id = j.id)
                      AND EXISTS (SELECT FROM entries e JOIN ledger_accounts a ON a.id = e.account_id
                                   WHERE e.journal_id = j.id AND a.code LIKE 'receiver:%' AND a.currency = s.currency AND e.amount = l.amount)
 GROUP BY l.id, s.id
HAVING count(j.id) <> CASE l.state WHEN 'SUCCEEDED' THEN 1 ELSE 0 END
 UNION ALL
SELECT format('journal %s (%s) is of no leg', j.id, j.key)
  FROM journals j
 WHERE j.kind = 'profit_share' AND NOT EXISTS (SELECT FROM share_legs l WHERE l.journal_id = j.id)
 LIMIT @max
