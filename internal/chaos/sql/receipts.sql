-- Every body that was kept, by its hash as it is now.
SELECT c.account, r.event_key, encode(sha256(r.body), 'hex') AS sum
  FROM channel_receipts r JOIN channel_accounts c ON c.id = r.account_id
