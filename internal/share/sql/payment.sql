-- The payment that is to be shared, with the event that credited it. Locked: sharings and refunds of one payment are decided
-- one after another.
SELECT p.id, p.amount, p.currency, p.state, p.refunded_amount + p.refund_pending AS refunded, p.sharing_plan,
       coalesce(e.account_id, 0) AS account_id, coalesce(e.transaction_id, '') AS transaction_id
  FROM payments p
  LEFT JOIN channel_events e ON e.tenant_id = p.tenant_id AND e.out_trade_no = p.out_trade_no
                            AND e.journal_id = p.credit_journal_id AND e.outcome = 'CREDITED'
 WHERE p.tenant_id = $1 AND p.out_trade_no = $2
   FOR UPDATE OF p
