-- In each account's statement every entry starts from the balance that the one before left.
SELECT format('account %s: the entry of version %s says %s after %s, the running sum is %s', account_id, account_version, balance_after, amount, running)
  FROM (SELECT account_id, account_version, amount, balance_after,
               sum(amount) OVER (PARTITION BY account_id ORDER BY account_version) AS running
          FROM entries) s
 WHERE balance_after <> running
 LIMIT @max
