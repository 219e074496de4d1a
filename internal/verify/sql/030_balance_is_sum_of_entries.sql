-- Each account's balance is the sum of its entries, and its newest entry says so too.
SELECT format('account %s (%s %s): balance %s, entries %s, newest entry says %s', a.id, a.tenant_id, a.code, a.balance, s.total, coalesce(n.balance_after, 0))
  FROM ledger_accounts a
  CROSS JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS total FROM entries WHERE account_id = a.id) s
  LEFT JOIN LATERAL (SELECT balance_after, account_version FROM entries
                      WHERE account_id = a.id ORDER BY account_version DESC LIMIT 1) n ON true
 WHERE a.balance <> s.total OR a.balance <> coalesce(n.balance_after, 0) OR a.version < coalesce(n.account_version, 0)
 LIMIT @max
