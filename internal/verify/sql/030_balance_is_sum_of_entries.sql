-- Each account's balance is the sum of its entries, and its newest entry says so too.
SELECT format('account %s (%s %s): balance %s, entries %s, newest entry says %s', a.id, a.tenant_id, a.code, a.balance, s.total, s.newest)
  FROM ledger_accounts a
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS total,
                             coalesce((array_agg(balance_after ORDER BY account_version DESC))[1], 0) AS newest
                        FROM entries WHERE account_id = a.id) s
 WHERE a.balance <> s.total OR a.balance <> s.newest
 LIMIT @max
