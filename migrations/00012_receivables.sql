-- +goose Up
-- What is owed, and what of it is not owed any more.
ALTER TABLE refunds
    -- Of what became a receivable: what is not owed any more, because it was set off, paid, or written off.
    ADD COLUMN settled bigint NOT NULL DEFAULT 0,
    -- What the merchant had too little of when the refund was reversed: it gave back a greater fee than it had taken from merchant.
    ADD COLUMN reversal_receivable bigint NOT NULL DEFAULT 0 CHECK (reversal_receivable >= 0),
    ADD CONSTRAINT refund_settled CHECK (settled BETWEEN 0 AND CASE WHEN reversal_journal_id IS NULL THEN receivable ELSE reversal_receivable END);
GRANT UPDATE (settled, reversal_receivable) ON refunds TO paylatch_engine;

-- A leg that was taken for closed and was paid after all: what the merchant owes of it, what of that is settled, and what of it
-- is beyond the payment.
ALTER TABLE share_legs
    ADD COLUMN receivable bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled bigint NOT NULL DEFAULT 0,
    ADD COLUMN excess bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT leg_divided CHECK (excess >= 0 AND receivable >= excess AND receivable <= amount AND settled BETWEEN 0 AND receivable),
    ADD CONSTRAINT leg_owed CHECK (state = 'SUCCEEDED' OR receivable = 0);
GRANT UPDATE (receivable, settled, excess) ON share_legs TO paylatch_engine;
ALTER TABLE payments
    ADD COLUMN shared_excess bigint NOT NULL DEFAULT 0 CHECK (shared_excess >= 0),
    DROP CONSTRAINT shares_within_payment,
    ADD CONSTRAINT shares_within_payment CHECK (shared_amount + shared_pending - shared_excess <= amount);
GRANT UPDATE (shared_excess) ON payments TO paylatch_engine;

-- Why and how something is owed no more, for ever: one row and one journal each.
CREATE TABLE settlements (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants,
    -- What was owed: by the merchant for a refund or for a leg, or by a receiver for a return.
    refund_id  bigint REFERENCES refunds,
    leg_id     bigint REFERENCES share_legs,
    return_id  bigint REFERENCES share_returns,
    -- Minor units of the currency.
    amount     bigint NOT NULL CHECK (amount > 0),
    currency   text NOT NULL,
    -- netted: set off by itself against what became free. balance: through the merchant's account, outside: paid in another way,
    -- written_off: given up; these three by an operator.
    how        text NOT NULL CHECK (how IN ('netted', 'balance', 'outside', 'written_off')),
    reason     text NOT NULL,
    journal_id bigint NOT NULL UNIQUE REFERENCES journals,
    created_at timestamptz NOT NULL,
    CONSTRAINT settlement_of_one CHECK (num_nonnulls(refund_id, leg_id, return_id) = 1)
);
CREATE INDEX settlements_by_refund ON settlements (refund_id) WHERE refund_id IS NOT NULL;
CREATE INDEX settlements_by_leg ON settlements (leg_id) WHERE leg_id IS NOT NULL;
-- A receiver owes a return once.
CREATE UNIQUE INDEX settlement_of_return_once ON settlements (return_id) WHERE return_id IS NOT NULL;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON settlements
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CALL isolate_by_tenant('settlements');
GRANT SELECT ON settlements TO paylatch_api;
GRANT SELECT, INSERT ON settlements TO paylatch_engine;

-- Money in suspense that its policy would give back and that cannot go: why, so that it is not tried again and again.
ALTER TABLE channel_events ADD COLUMN return_refused text NOT NULL DEFAULT '';
GRANT UPDATE (return_refused) ON channel_events TO paylatch_engine;

-- When somebody was last told that a sharing, or what is collected of it, does not end.
ALTER TABLE shares ADD COLUMN alerted_at timestamptz;
GRANT UPDATE (alerted_at) ON shares TO paylatch_engine;

-- +goose Down
ALTER TABLE shares DROP COLUMN alerted_at;
ALTER TABLE channel_events DROP COLUMN return_refused;
DROP TABLE settlements;
ALTER TABLE payments DROP CONSTRAINT shares_within_payment, DROP COLUMN shared_excess,
    ADD CONSTRAINT shares_within_payment CHECK (shared_amount + shared_pending <= amount);
ALTER TABLE share_legs DROP COLUMN receivable, DROP COLUMN settled, DROP COLUMN excess;
ALTER TABLE refunds DROP COLUMN settled, DROP COLUMN reversal_receivable;
