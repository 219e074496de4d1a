-- Reserves an amount on a paid payment. Guard: refunds, done and on their way, and this one stay within what was captured; 0 rows
-- means look why. What receivers of a sharing have of it is taken back from them, in the same transaction.
UPDATE payments
   SET refund_pending = refund_pending + $3
 WHERE tenant_id = $1 AND out_trade_no = $2 AND state IN ('PAID', 'SHIPPED', 'COMPLETED')
   AND $3 <= amount - refund_pending - refunded_amount
RETURNING id, currency
