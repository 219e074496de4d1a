-- Makes a transfer and takes its key, where all that its legs name is there.
-- Guard: a name, reference or key, belongs to one transfer. No row back: read the one that has it, or ask what is missing.
-- A key that another transfer takes at this very moment fails the statement (transfer_keys_pkey), and nothing was made.
WITH leg AS (
    SELECT * FROM json_to_recordset($6) AS l (type text, account text, currency text, amount bigint, sku text, participant text)
), named AS (
    SELECT a.id, a.allow_negative, l.amount
      FROM leg l LEFT JOIN ledger_accounts a ON a.tenant_id = $1 AND a.code = l.account AND a.currency = l.currency
     WHERE l.type = 'ledger'
), made AS (
    INSERT INTO transfers (tenant_id, reference, idempotency_key, fingerprint, mode, legs, next_drive_at)
    SELECT $1, $2, $3, $4, $5, $6, $7
     WHERE NOT EXISTS (SELECT FROM named WHERE id IS NULL)
       -- $8: it pays into an account whose balance stands for money received.
       AND NOT ($8 AND EXISTS (SELECT FROM named WHERE amount < 0 AND allow_negative))
       AND NOT EXISTS (SELECT FROM leg l LEFT JOIN stock s ON s.tenant_id = $1 AND s.sku = l.sku WHERE l.type = 'stock' AND s.sku IS NULL)
       AND NOT EXISTS (SELECT FROM leg l LEFT JOIN participants p ON p.tenant_id = $1 AND p.name = l.participant WHERE l.type = 'http' AND p.name IS NULL)
       AND NOT EXISTS (SELECT FROM transfer_keys WHERE tenant_id = $1 AND key = $3)
    ON CONFLICT DO NOTHING
    RETURNING id, tenant_id, gid, reference, idempotency_key, fingerprint, mode, state, failure, legs, created_at, decided_at, ended_at
), key AS (
    INSERT INTO transfer_keys (tenant_id, key, transfer_id)
    SELECT tenant_id, idempotency_key, id FROM made WHERE idempotency_key IS NOT NULL
)
SELECT * FROM made
