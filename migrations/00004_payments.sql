-- +goose Up
CREATE TABLE payments (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        text NOT NULL REFERENCES tenants,
    out_trade_no     text NOT NULL CHECK (out_trade_no ~ '^[A-Za-z0-9_.|*-]{1,64}$'),
    -- Minor units of the currency.
    amount           bigint NOT NULL CHECK (amount > 0),
    currency         text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    description      text NOT NULL DEFAULT '',
    metadata         json NOT NULL DEFAULT '{}',
    -- The channel account that the merchant chose at creation; null: any account of the tenant may report it.
    account_id       bigint REFERENCES channel_accounts,
    method           text NOT NULL DEFAULT '',
    -- SHA-256 of the canonical creating request: the same number with another body is refused.
    fingerprint      bytea NOT NULL CHECK (length(fingerprint) = 32),
    state            text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'PAID', 'SHIPPED', 'COMPLETED', 'CLOSED')),
    refund_state     text NOT NULL DEFAULT 'NONE' CHECK (refund_state IN ('NONE', 'PARTIAL', 'FULL')),
    refunded_amount  bigint NOT NULL DEFAULT 0 CHECK (refunded_amount BETWEEN 0 AND amount),
    close_reason     text,
    -- The journal that credited it; set in the transaction that made it PAID.
    credit_journal_id bigint UNIQUE REFERENCES journals,
    created_at       timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL,
    paid_at          timestamptz,
    shipped_at       timestamptz,
    completed_at     timestamptz,
    closed_at        timestamptz,
    CONSTRAINT payment_once UNIQUE (tenant_id, out_trade_no),
    CONSTRAINT paid_means_credited CHECK ((state IN ('PAID', 'SHIPPED', 'COMPLETED')) = (credit_journal_id IS NOT NULL))
);
CREATE INDEX payments_newest ON payments (tenant_id, id DESC);
CREATE INDEX payments_to_expire ON payments (expires_at) WHERE state = 'PENDING';

-- The state machine, held by the database too: whatever writes, nothing moves backwards or skips a step.
-- +goose StatementBegin
CREATE FUNCTION check_payment_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'PENDING' OR NEW.refund_state <> 'NONE' OR NEW.refunded_amount <> 0 THEN
            RAISE EXCEPTION 'payment %: it begins as PENDING', NEW.out_trade_no
                USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_move';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('PENDING', 'PAID'), ('PENDING', 'CLOSED'), ('PAID', 'SHIPPED'), ('SHIPPED', 'COMPLETED')) THEN
        RAISE EXCEPTION 'payment %: no move from % to %', OLD.out_trade_no, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_payment_move BEFORE UPDATE OF state ON payments
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION check_payment_move();
CREATE TRIGGER check_payment_begin BEFORE INSERT ON payments
    FOR EACH ROW EXECUTE FUNCTION check_payment_move();

-- Every distinct authentic body, raw, whatever became of it: a wrong report never takes a right one's place.
CREATE TABLE channel_receipts (
    id          bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant_id   text NOT NULL REFERENCES tenants,
    account_id  bigint NOT NULL REFERENCES channel_accounts,
    event_key   text NOT NULL,
    body_sha256 bytea NOT NULL CHECK (length(body_sha256) = 32),
    body        bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, event_key, body_sha256)
);

CREATE TABLE channel_events (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id      text NOT NULL REFERENCES tenants,
    account_id     bigint NOT NULL REFERENCES channel_accounts,
    event_key      text NOT NULL,
    -- The receipt that the facts below were read from.
    receipt_id     bigint NOT NULL REFERENCES channel_receipts (id),
    kind           text NOT NULL,
    transaction_id text NOT NULL DEFAULT '',
    out_trade_no   text NOT NULL DEFAULT '',
    amount         bigint,
    currency       text,
    occurred_at    timestamptz,
    -- In what the message contradicts the account's configuration; empty for one that does not.
    mismatch       text NOT NULL DEFAULT '',
    state          text NOT NULL CHECK (state IN ('RECEIVED', 'DONE', 'PARKED', 'IGNORED')),
    outcome        text CHECK ((outcome IS NULL) = (state = 'RECEIVED')),
    -- For people: why it is where it is.
    reason         text NOT NULL DEFAULT '',
    -- A conflicting report is an item of its own and names the event that it contradicts.
    conflicts_with bigint REFERENCES channel_events,
    -- The journal that booked it, where money moved.
    journal_id     bigint REFERENCES journals,
    received_at    timestamptz NOT NULL DEFAULT now(),
    -- When it came into its present state.
    state_since    timestamptz NOT NULL,
    -- RECEIVED: when the re-drive delivers it (again). PARKED: when somebody must have looked at it.
    next_drive_at  timestamptz NOT NULL,
    drives         int NOT NULL DEFAULT 0,
    CONSTRAINT event_once UNIQUE (account_id, event_key)
);
CREATE INDEX channel_events_newest ON channel_events (tenant_id, id DESC);
CREATE INDEX channel_events_by_order ON channel_events (tenant_id, out_trade_no);
CREATE INDEX channel_events_to_drive ON channel_events (next_drive_at) WHERE state = 'RECEIVED';
CREATE INDEX channel_events_unmatched ON channel_events (tenant_id, out_trade_no) WHERE state = 'PARKED' AND outcome = 'UNKNOWN_ORDER';
CREATE INDEX channel_events_parked ON channel_events (next_drive_at) WHERE state = 'PARKED';

CALL isolate_by_tenant('payments');
CALL isolate_by_tenant('channel_receipts');
CALL isolate_by_tenant('channel_events');

GRANT SELECT ON payments TO paylatch_api;
GRANT INSERT (tenant_id, out_trade_no, amount, currency, description, metadata, account_id, method, fingerprint, expires_at) ON payments TO paylatch_api;
GRANT UPDATE (state, close_reason, closed_at, shipped_at, completed_at) ON payments TO paylatch_api;
GRANT SELECT ON channel_events TO paylatch_api;

GRANT SELECT ON payments TO paylatch_engine;
GRANT UPDATE (state, close_reason, closed_at, paid_at, credit_journal_id) ON payments TO paylatch_engine;
GRANT SELECT, INSERT ON channel_receipts TO paylatch_engine;
GRANT SELECT, INSERT ON channel_events TO paylatch_engine;
GRANT UPDATE (receipt_id, kind, transaction_id, out_trade_no, amount, currency, occurred_at, mismatch, state, outcome, reason,
              journal_id, state_since, next_drive_at, drives) ON channel_events TO paylatch_engine;

-- +goose Down
DROP TABLE channel_events, channel_receipts, payments;
DROP FUNCTION check_payment_move();
