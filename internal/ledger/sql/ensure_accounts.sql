-- Makes the accounts that are missing. Almost always none is, and then nothing is written.
-- Guard: UNIQUE (tenant_id, code, currency). Sorted, so that two makers wait for each other in one order.
INSERT INTO ledger_accounts (tenant_id, code, currency, allow_negative)
SELECT $1, l.code, l.currency, l.allow_negative
  FROM unnest($2::text[], $3::text[], $4::boolean[]) AS l (code, currency, allow_negative)
 WHERE NOT EXISTS (SELECT FROM ledger_accounts a
                    WHERE a.tenant_id = $1 AND a.code = l.code AND a.currency = l.currency)
 ORDER BY l.code, l.currency
    ON CONFLICT DO NOTHING
