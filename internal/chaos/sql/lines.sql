-- Every line of every journal; a journal without lines has one that is empty.
SELECT j.id, j.tenant_id, j.key, j.kind, coalesce(a.code, '') AS code, coalesce(a.currency, '') AS currency, coalesce(x.amount, 0) AS amount
  FROM journals j
  LEFT JOIN entries x ON x.journal_id = j.id
  LEFT JOIN ledger_accounts a ON a.id = x.account_id
 ORDER BY j.id, x.line
