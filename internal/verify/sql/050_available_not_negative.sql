-- No account has less than nothing available, unless it may.
SELECT format('account %s (%s %s): balance %s, held %s', id, tenant_id, code, balance, held)
  FROM ledger_accounts
 WHERE NOT allow_negative AND balance - held < 0
 LIMIT @max
