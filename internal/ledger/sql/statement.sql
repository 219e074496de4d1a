-- A page of an account's statement, newest first. The index entries_statement gives the order and the cursor.
SELECT j.key, j.kind, e.amount, e.balance_after, e.account_version, j.posted_at
  FROM entries e JOIN journals j ON j.id = e.journal_id
 WHERE e.account_id = $1 AND ($2::bigint = 0 OR e.account_version < $2)
 ORDER BY e.account_version DESC
 LIMIT $3
