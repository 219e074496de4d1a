-- What takes a refund's journals back: each account's part of them, the other way round. What was paid to settle it outside of
-- the channel is the merchant's again; no journal gives that back outside.
SELECT CASE a.code WHEN 'settled:outside' THEN 'merchant' ELSE a.code END, a.currency, -sum(e.amount)::bigint
  FROM journals j
  JOIN entries e ON e.journal_id = j.id
  JOIN ledger_accounts a ON a.id = e.account_id
 WHERE j.tenant_id = $1 AND (j.key = ANY($2) OR j.id IN (SELECT journal_id FROM settlements WHERE refund_id = $3))
 GROUP BY 1, 2
HAVING sum(e.amount) <> 0
