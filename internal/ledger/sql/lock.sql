-- Locks accounts by id, as everywhere, and gives what each has available. Lines are numbered from 1.
SELECT l.line, a.balance - a.held
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS l (code, currency, line)
  JOIN ledger_accounts a ON a.tenant_id = $1 AND a.code = l.code AND a.currency = l.currency
 ORDER BY a.id
   FOR UPDATE OF a
