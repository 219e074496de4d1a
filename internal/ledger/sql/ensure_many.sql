-- Makes the accounts that are missing, of many journals. Guard: UNIQUE (tenant_id, code, currency). Sorted, so that two
-- makers wait for each other in one order.
INSERT INTO ledger_accounts (tenant_id, code, currency, allow_negative)
SELECT DISTINCT ON (l.tenant_id, l.code, l.currency) l.tenant_id, l.code, l.currency, l.allow_negative
  FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[]) AS l (tenant_id, code, currency, allow_negative)
 WHERE NOT EXISTS (SELECT FROM ledger_accounts a
                    WHERE a.tenant_id = l.tenant_id AND a.code = l.code AND a.currency = l.currency)
 ORDER BY l.tenant_id, l.code, l.currency
    ON CONFLICT DO NOTHING
