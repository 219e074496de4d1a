-- Each journal of received money is what one DONE event reported: its tenant, account, transaction, amount and currency.
SELECT format('journal %s (%s) of %s: %s events of its own report it so', j.id, j.key, j.tenant_id, count(e.id))
  FROM journals j
  LEFT JOIN channel_events e
         ON e.journal_id = j.id AND e.state = 'DONE' AND e.kind = 'PAY_SUCCESS' AND e.tenant_id = j.tenant_id
        AND j.key = 'received:' || e.account_id || ':' || e.transaction_id
        AND EXISTS (SELECT FROM entries x JOIN ledger_accounts a ON a.id = x.account_id
                     WHERE x.journal_id = j.id AND a.tenant_id = e.tenant_id AND a.currency = e.currency AND x.amount = e.amount
                       AND a.code = CASE j.kind WHEN 'payment_credit' THEN 'merchant' ELSE 'suspense' END)
        AND EXISTS (SELECT FROM entries x JOIN ledger_accounts a ON a.id = x.account_id
                      JOIN channel_accounts c ON c.id = e.account_id AND c.tenant_id = e.tenant_id
                     WHERE x.journal_id = j.id AND a.tenant_id = e.tenant_id AND a.currency = e.currency AND x.amount = -e.amount
                       AND a.code = 'channel:' || c.channel || ':' || c.account)
 WHERE j.kind IN ('payment_credit', 'payment_suspense')
 GROUP BY j.id
HAVING count(e.id) <> 1
 LIMIT @max
