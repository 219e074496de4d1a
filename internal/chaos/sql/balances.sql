-- Every account.
SELECT tenant_id, code, currency, balance, held FROM ledger_accounts
