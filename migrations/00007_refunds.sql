-- +goose Up
-- What a tenant wants to happen by itself.
ALTER TABLE tenants
    -- Money in suspense: automatic gives back what comes from now on, once the channel says that it was paid; operator waits
    -- for a person.
    ADD COLUMN suspense_refund text NOT NULL DEFAULT 'operator' CHECK (suspense_refund IN ('operator', 'automatic')),
    ADD COLUMN suspense_refund_since timestamptz NOT NULL DEFAULT now(),
    -- A refund for which the merchant has too little: refused, or taken as far as it goes and the rest booked as a receivable.
    ADD COLUMN refund_shortfall text NOT NULL DEFAULT 'refuse' CHECK (refund_shortfall IN ('refuse', 'allow_receivable'));
GRANT UPDATE (suspense_refund, suspense_refund_since, refund_shortfall) ON tenants TO paylatch_engine;

-- Fees that come back with a refund may never have been told when they were taken.
UPDATE ledger_accounts SET allow_negative = true WHERE code = 'fees';

-- refunded_amount is what really went back, also beyond what was captured (refund_excess: refunds made in the channel's own
-- console, or that succeeded after they had failed). Everything that is asked for here stays within.
ALTER TABLE payments
    DROP CONSTRAINT payments_check,
    ADD COLUMN refund_pending bigint NOT NULL DEFAULT 0 CHECK (refund_pending >= 0),
    ADD COLUMN refund_excess bigint NOT NULL DEFAULT 0 CHECK (refund_excess >= 0),
    ADD CONSTRAINT refunded_not_negative CHECK (refunded_amount >= 0 AND refund_excess <= refunded_amount),
    ADD CONSTRAINT refunds_within_captured CHECK (refund_pending + refunded_amount - refund_excess <= amount),
    ADD CONSTRAINT refunds_of_paid CHECK (state IN ('PAID', 'SHIPPED', 'COMPLETED') OR refund_pending + refunded_amount = 0),
    ADD CONSTRAINT refund_state_follows CHECK (refund_state = CASE WHEN refunded_amount = 0 THEN 'NONE' WHEN refunded_amount < amount THEN 'PARTIAL' ELSE 'FULL' END);
GRANT UPDATE (refund_state, refunded_amount, refund_pending, refund_excess) ON payments TO paylatch_engine;

CREATE TABLE refunds (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id           text NOT NULL REFERENCES tenants,
    -- Its number at the channel, for ever: committed before the first call.
    out_refund_no       text NOT NULL CHECK (out_refund_no ~ '^[A-Za-z0-9_.|*-]{1,64}$'),
    -- merchant: asked for here. channel: made in the channel's own console, and adopted. suspense: money that no order waits for.
    origin              text NOT NULL CHECK (origin IN ('merchant', 'channel', 'suspense')),
    -- What is refunded: a payment, or the money in suspense that an event brought.
    payment_id          bigint REFERENCES payments,
    event_id            bigint REFERENCES channel_events,
    -- Where the money came from, and the channel's numbers of the payment and of the refund.
    account_id          bigint NOT NULL REFERENCES channel_accounts,
    transaction_id      text NOT NULL,
    refund_id           text NOT NULL DEFAULT '',
    -- Minor units of the currency.
    amount              bigint NOT NULL CHECK (amount > 0),
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    reason              text NOT NULL DEFAULT '',
    state               text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED')),
    -- Stuck until a person acts in the channel's console: not an end, so nothing is released.
    abnormal            boolean NOT NULL DEFAULT false,
    -- Why it failed, or what makes it unknown: for people.
    failure             text NOT NULL DEFAULT '',
    -- Of amount: what is set aside on merchant or suspense while it is open; what is a receivable; and what of that is above the
    -- captured amount.
    held                bigint NOT NULL DEFAULT 0,
    receivable          bigint NOT NULL DEFAULT 0,
    excess              bigint NOT NULL DEFAULT 0,
    -- The part of the channel's fee that came back with it; null where the channel did not tell.
    fee                 bigint CHECK (fee >= 0),
    -- Whether its channel can be asked; if not, only a callback ends it.
    asks                boolean NOT NULL,
    -- The channel must say first that the payment exists and is paid.
    confirm_first       boolean NOT NULL DEFAULT false,
    -- How often the channel was called, counted before each call: after the first it is asked before it is called again.
    calls               int NOT NULL DEFAULT 0,
    -- When it was called last: a channel may know of a call only some seconds later.
    called_at           timestamptz,
    -- What the channel last answered to a question, and when.
    channel_state       text NOT NULL DEFAULT '',
    asked_at            timestamptz,
    -- The channel's time of the end; null where it told none.
    occurred_at         timestamptz,
    journal_id          bigint UNIQUE REFERENCES journals,
    reversal_journal_id bigint UNIQUE REFERENCES journals,
    created_at          timestamptz NOT NULL DEFAULT now(),
    state_since         timestamptz NOT NULL,
    ended_at            timestamptz,
    -- When the re-drive starts its flow again while it is open; null: nothing can be driven.
    next_drive_at       timestamptz,
    -- When somebody is told that it is open still.
    alert_at            timestamptz NOT NULL,
    CONSTRAINT refund_once UNIQUE (tenant_id, out_refund_no),
    CONSTRAINT refund_of_one CHECK ((payment_id IS NULL) <> (event_id IS NULL)),
    CONSTRAINT refund_divided CHECK (held >= 0 AND excess >= 0 AND receivable >= excess AND held <= amount AND receivable <= amount),
    CONSTRAINT refund_ended CHECK ((state IN ('SUCCEEDED', 'FAILED')) = (ended_at IS NOT NULL)),
    -- One journal while it has succeeded; none, or one and its reversal, otherwise.
    CONSTRAINT refund_booked CHECK ((state = 'SUCCEEDED') = (journal_id IS NOT NULL AND reversal_journal_id IS NULL)
                                    AND (reversal_journal_id IS NULL OR journal_id IS NOT NULL))
);
CREATE INDEX refunds_newest ON refunds (tenant_id, id DESC);
CREATE INDEX refunds_by_payment ON refunds (payment_id) WHERE payment_id IS NOT NULL;
CREATE INDEX refunds_by_event ON refunds (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX refunds_by_transaction ON refunds (account_id, transaction_id);
CREATE INDEX refunds_open ON refunds (next_drive_at) WHERE state IN ('PENDING', 'UNKNOWN');
CREATE INDEX refunds_to_tell ON refunds (alert_at) WHERE state IN ('PENDING', 'UNKNOWN');
-- One refund of the channel is one row. The transaction is part of it: some channels number refunds within the payment.
CREATE UNIQUE INDEX refund_of_channel_once ON refunds (account_id, transaction_id, refund_id) WHERE refund_id <> '';
-- Money in suspense goes back by one refund at a time.
CREATE UNIQUE INDEX refund_of_suspense_once ON refunds (event_id) WHERE origin = 'suspense' AND state IN ('PENDING', 'UNKNOWN');

-- The state machine, held by the database too.
-- +goose StatementBegin
CREATE FUNCTION check_refund_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'PENDING' THEN
            RAISE EXCEPTION 'refund %: it begins as PENDING', NEW.out_refund_no
                USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_move';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('PENDING', 'UNKNOWN'), ('UNKNOWN', 'PENDING'),
                                      ('PENDING', 'SUCCEEDED'), ('UNKNOWN', 'SUCCEEDED'), ('PENDING', 'FAILED'), ('UNKNOWN', 'FAILED'),
                                      ('SUCCEEDED', 'FAILED'), ('FAILED', 'SUCCEEDED')) THEN
        RAISE EXCEPTION 'refund %: no move from % to %', OLD.out_refund_no, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_refund_move BEFORE UPDATE OF state ON refunds
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION check_refund_move();
CREATE TRIGGER check_refund_begin BEFORE INSERT ON refunds
    FOR EACH ROW EXECUTE FUNCTION check_refund_move();

-- When the channel was asked about an event that cannot be booked on its own word.
ALTER TABLE channel_events ADD COLUMN asked_at timestamptz;
CREATE INDEX channel_events_unmatched_rows ON channel_events (tenant_id, out_no) WHERE state = 'PARKED' AND outcome IN ('UNKNOWN_REFUND', 'UNKNOWN_SHARE');
-- Money that came and that no order waits for: few, and looked at by the policy of automatic refunds.
CREATE INDEX channel_events_in_suspense ON channel_events (tenant_id, state_since) WHERE kind = 'PAY_SUCCESS' AND state = 'DONE' AND outcome <> 'CREDITED';

CALL isolate_by_tenant('refunds');
GRANT SELECT ON refunds TO paylatch_api;
GRANT SELECT, INSERT ON refunds TO paylatch_engine;
GRANT UPDATE (refund_id, state, abnormal, failure, held, receivable, excess, fee, confirm_first, calls, called_at, channel_state, asked_at, occurred_at,
              journal_id, reversal_journal_id, state_since, ended_at, next_drive_at, alert_at) ON refunds TO paylatch_engine;
GRANT UPDATE (asked_at) ON channel_events TO paylatch_engine;

-- +goose Down
DROP INDEX channel_events_in_suspense, channel_events_unmatched_rows;
ALTER TABLE channel_events DROP COLUMN asked_at;
DROP TABLE refunds;
DROP FUNCTION check_refund_move();
ALTER TABLE payments DROP COLUMN refund_pending, DROP COLUMN refund_excess, DROP CONSTRAINT refunded_not_negative, DROP CONSTRAINT refund_state_follows,
    ADD CONSTRAINT payments_check CHECK (refunded_amount BETWEEN 0 AND amount);
ALTER TABLE tenants DROP COLUMN suspense_refund, DROP COLUMN suspense_refund_since, DROP COLUMN refund_shortfall;
