-- Guard: settlement_of_return_once, and the journal's key.
INSERT INTO settlements (tenant_id, refund_id, leg_id, return_id, amount, currency, how, reason, journal_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
