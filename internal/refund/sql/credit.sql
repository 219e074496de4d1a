-- The account and the transaction that a payment was credited from.
SELECT e.account_id, e.transaction_id
  FROM payments p
  JOIN channel_events e ON e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                       AND e.outcome = 'CREDITED' AND e.journal_id = p.credit_journal_id
 WHERE p.id = $1
