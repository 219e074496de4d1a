-- Each account's held amount is the sum of its open holds; nothing takes holds yet, so it is zero.
SELECT format('account %s (%s %s): held %s', id, tenant_id, code, held)
  FROM ledger_accounts
 WHERE held <> 0
 LIMIT @max
