-- A channel transaction is booked at most once, whatever events reported it.
SELECT format('account %s, transaction %s: %s journals', account_id, transaction_id, count(DISTINCT journal_id))
  FROM channel_events
 WHERE journal_id IS NOT NULL AND kind = 'PAY_SUCCESS' AND outcome <> 'CONFLICT'
 GROUP BY account_id, transaction_id
HAVING count(DISTINCT journal_id) > 1
 LIMIT @max
