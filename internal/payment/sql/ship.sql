-- Guard: PAID to SHIPPED once.
UPDATE payments SET state = 'SHIPPED', shipped_at = now() WHERE tenant_id = $1 AND out_trade_no = $2 AND state = 'PAID'
