-- Sets an amount aside. Guard: hold_once decides who holds; what is available, in the WHERE clause of the update, decides
-- whether. The first answer says that the hold is new, the second that the account had enough; not both: the caller rolls back.
WITH hold AS (
    INSERT INTO holds (tenant_id, account_id, key, amount)
    SELECT $1, a.id, $4, $5 FROM ledger_accounts a WHERE a.tenant_id = $1 AND a.code = $2 AND a.currency = $3
    ON CONFLICT ON CONSTRAINT hold_once DO NOTHING
    RETURNING account_id, amount
), held AS (
    UPDATE ledger_accounts a
       SET held = a.held + hold.amount, version = a.version + 1
      FROM hold
     WHERE a.id = hold.account_id AND (a.allow_negative OR a.balance - a.held >= hold.amount)
    RETURNING a.id
)
SELECT EXISTS (SELECT FROM hold), EXISTS (SELECT FROM held)
