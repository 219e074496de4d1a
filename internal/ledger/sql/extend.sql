-- Adds an amount to a hold, or places it. Guard: what is available, in the WHERE clause of the update; a hold of that key on
-- another account is left alone. The first answer says that the hold is there, the second that the account had enough; not both:
-- the caller rolls back.
WITH hold AS (
    INSERT INTO holds (tenant_id, account_id, key, amount)
    SELECT $1, a.id, $4, $5 FROM ledger_accounts a WHERE a.tenant_id = $1 AND a.code = $2 AND a.currency = $3
    ON CONFLICT ON CONSTRAINT hold_once DO UPDATE SET amount = holds.amount + EXCLUDED.amount WHERE holds.account_id = EXCLUDED.account_id
    RETURNING account_id
), held AS (
    UPDATE ledger_accounts a
       SET held = a.held + $5, version = a.version + 1
      FROM hold
     WHERE a.id = hold.account_id AND (a.allow_negative OR a.balance - a.held >= $5)
    RETURNING a.id
)
SELECT EXISTS (SELECT FROM hold), EXISTS (SELECT FROM held)
