-- Guard: SHIPPED to COMPLETED once.
UPDATE payments SET state = 'COMPLETED', completed_at = now() WHERE tenant_id = $1 AND out_trade_no = $2 AND state = 'SHIPPED'
