-- The columns of share.Share; the caller appends its WHERE.
SELECT s.id, s.tenant_id, s.out_order_no, s.payment_id, p.out_trade_no, s.account_id, c.channel, c.account, s.transaction_id,
       p.channel_reference, s.amount, s.currency, s.base, s.finish, s.fingerprint, s.state, s.reason, s.share_id, s.sends,
       s.retries, s.created_at, s.state_since, s.ended_at
  FROM shares s
  JOIN payments p ON p.id = s.payment_id
  JOIN channel_accounts c ON c.id = s.account_id
