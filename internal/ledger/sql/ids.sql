-- Accounts in the order of their names; a null id for one that does not exist.
SELECT a.id, coalesce(a.balance, 0), coalesce(a.allow_negative, false)
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS n (code, currency, line)
  LEFT JOIN ledger_accounts a ON a.tenant_id = $1 AND a.code = n.code AND a.currency = n.currency
 ORDER BY n.line
