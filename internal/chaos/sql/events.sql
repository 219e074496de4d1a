-- Every event, with its account's name and the journal that booked it.
SELECT e.tenant_id, c.account, e.event_key, e.kind, e.transaction_id, e.out_trade_no, coalesce(e.amount, 0) AS amount,
       coalesce(e.currency, '') AS currency, e.state, coalesce(e.outcome, '') AS outcome, e.reason, coalesce(e.journal_id, 0) AS journal
  FROM channel_events e JOIN channel_accounts c ON c.id = e.account_id
 ORDER BY e.id
