-- Each account's held amount is the sum of its open holds.
SELECT format('account %s (%s %s): held %s, open holds %s', a.id, a.tenant_id, a.code, a.held, s.open)
  FROM ledger_accounts a
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount - captured - released), 0) AS open
                        FROM holds WHERE account_id = a.id AND captured + released < amount) s
 WHERE a.held <> s.open
 LIMIT @max
