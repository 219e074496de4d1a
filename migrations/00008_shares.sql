-- +goose Up
-- What a refund of a shared payment does: it takes the receivers' parts back first, or the merchant pays and the receivers owe.
ALTER TABLE tenants ADD COLUMN refund_of_shared text NOT NULL DEFAULT 'return' CHECK (refund_of_shared IN ('return', 'receivable'));
GRANT UPDATE (refund_of_shared) ON tenants TO paylatch_engine;
-- What receivers are to give back before it goes out: it is neither held nor a receivable yet.
ALTER TABLE refunds ADD COLUMN awaited bigint NOT NULL DEFAULT 0 CHECK (awaited BETWEEN 0 AND amount);
GRANT UPDATE (awaited) ON refunds TO paylatch_engine;
-- What comes back for a refund is added to what is set aside for it.
GRANT UPDATE (amount) ON holds TO paylatch_engine;

ALTER TABLE payments
    -- What receivers have of it, less what came back or is owed.
    ADD COLUMN shared_amount bigint NOT NULL DEFAULT 0 CHECK (shared_amount >= 0),
    -- What is on its way to them.
    ADD COLUMN shared_pending bigint NOT NULL DEFAULT 0 CHECK (shared_pending >= 0),
    ADD CONSTRAINT shares_within_payment CHECK (shared_amount + shared_pending <= amount);

-- One sharing under the merchant's own number, which is its number at the channel for ever.
CREATE TABLE shares (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id      text NOT NULL REFERENCES tenants,
    out_order_no   text NOT NULL CHECK (out_order_no ~ '^[A-Za-z0-9_.|*-]{1,64}$'),
    payment_id     bigint NOT NULL REFERENCES payments,
    -- The channel account and the channel's transaction that the payment came by.
    account_id     bigint NOT NULL REFERENCES channel_accounts,
    transaction_id text NOT NULL,
    -- Minor units of currency: the sum of the legs, 0 where it only ends the sharing.
    amount         bigint NOT NULL CHECK (amount >= 0),
    currency       text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- What the payment was worth when it was divided: its amount less refunds. What is refunded later is taken back from it.
    base           bigint NOT NULL CHECK (base >= 0),
    finish         boolean NOT NULL,
    -- SHA-256 of the canonical request: the same number with another body is refused.
    fingerprint    bytea NOT NULL CHECK (length(fingerprint) = 32),
    state          text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'UNKNOWN', 'PROCESSING', 'SUCCEEDED', 'PARTIAL', 'FAILED', 'REFUSED')),
    -- The channel's word where it refused, or did not answer; for people.
    reason         text NOT NULL DEFAULT '',
    -- The channel's own number of it, once it is known.
    share_id       text NOT NULL DEFAULT '',
    -- How often it was sent or asked for. Written before the call: above 0 means that the channel may have it.
    sends          int NOT NULL DEFAULT 0,
    -- When the channel was last told of it, before it is: a refusal soon after says nothing, as that call may still arrive.
    told_at        timestamptz,
    -- How often it was taken up again after a refusal; each time it holds anew.
    retries        int NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL,
    state_since    timestamptz NOT NULL,
    ended_at       timestamptz,
    -- When the re-drive looks at it while it is not at its end.
    next_drive_at  timestamptz NOT NULL,
    CONSTRAINT share_once UNIQUE (tenant_id, out_order_no),
    CONSTRAINT share_does_something CHECK (amount > 0 OR finish),
    CONSTRAINT share_ended CHECK ((state IN ('SUCCEEDED', 'PARTIAL', 'FAILED', 'REFUSED')) = (ended_at IS NOT NULL))
);
CREATE INDEX shares_newest ON shares (tenant_id, id DESC);
CREATE INDEX shares_by_payment ON shares (payment_id);
CREATE INDEX shares_to_drive ON shares (next_drive_at) WHERE ended_at IS NULL;
-- The sharing of a payment is ended once; a refused one has ended nothing.
CREATE UNIQUE INDEX share_finish_once ON shares (payment_id) WHERE finish AND state <> 'REFUSED';

CREATE TABLE share_legs (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    share_id    bigint NOT NULL REFERENCES shares,
    tenant_id   text NOT NULL REFERENCES tenants,
    -- The receiver in the channel's own way.
    account     text NOT NULL CHECK (length(account) BETWEEN 1 AND 128),
    type        text NOT NULL DEFAULT '',
    name        text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    ratio       bigint,
    amount      bigint NOT NULL CHECK (amount >= 0),
    -- EMPTY: its part came to nothing, and it is not sent.
    state       text NOT NULL CHECK (state IN ('PENDING', 'SUCCEEDED', 'CLOSED', 'EMPTY')),
    reason      text NOT NULL DEFAULT '',
    -- The journal that booked it.
    journal_id  bigint UNIQUE REFERENCES journals,
    -- What of it came back, is on its way back, or is owed.
    taken_back  bigint NOT NULL DEFAULT 0 CHECK (taken_back >= 0),
    ended_at    timestamptz,
    CONSTRAINT share_leg_once UNIQUE (share_id, account),
    CONSTRAINT leg_booked CHECK ((state = 'SUCCEEDED') = (journal_id IS NOT NULL)),
    CONSTRAINT leg_empty CHECK ((state = 'EMPTY') = (amount = 0)),
    CONSTRAINT leg_taken_back CHECK (taken_back <= CASE state WHEN 'SUCCEEDED' THEN amount ELSE 0 END)
);

-- What one refund takes back of one leg.
CREATE TABLE share_returns (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id     text NOT NULL REFERENCES tenants,
    leg_id        bigint NOT NULL REFERENCES share_legs,
    refund_id     bigint NOT NULL REFERENCES refunds,
    amount        bigint NOT NULL CHECK (amount > 0),
    -- PENDING: the channel is told or asked before the refund goes out. RETURNED: it came back. DUE: it will be owed once the
    -- money is refunded. OWED: it is. CLEARED: it was owed, and came back. VOID: the refund failed, nothing is taken back.
    state         text NOT NULL CHECK (state IN ('PENDING', 'RETURNED', 'DUE', 'OWED', 'CLEARED', 'VOID')),
    reason        text NOT NULL DEFAULT '',
    -- Its number at the channel, made of the refund's, the sharing's, the receiver and how often it was refused before.
    out_return_no text NOT NULL CHECK (out_return_no ~ '^[a-z0-9]{1,64}$'),
    attempt       int NOT NULL DEFAULT 0,
    return_id     text NOT NULL DEFAULT '',
    -- How often this number was sent or asked for. Written before the call.
    sends         int NOT NULL DEFAULT 0,
    told_at       timestamptz,
    -- The channel is told or asked outside of the refund: for what is owed, or what was under way when the refund ended.
    collecting    boolean NOT NULL DEFAULT false,
    owed_journal_id bigint UNIQUE REFERENCES journals,
    -- The journal by which it came back.
    journal_id    bigint UNIQUE REFERENCES journals,
    created_at    timestamptz NOT NULL,
    state_since   timestamptz NOT NULL,
    -- When the re-drive looks at one that is being collected.
    next_drive_at timestamptz NOT NULL,
    CONSTRAINT share_return_once UNIQUE (tenant_id, out_return_no),
    CONSTRAINT return_booked CHECK ((state IN ('RETURNED', 'CLEARED')) = (journal_id IS NOT NULL)),
    CONSTRAINT return_owed CHECK (CASE state WHEN 'VOID' THEN true ELSE (state IN ('OWED', 'CLEARED')) = (owed_journal_id IS NOT NULL) END),
    CONSTRAINT return_collected CHECK (NOT collecting OR state IN ('PENDING', 'OWED'))
);
CREATE INDEX share_returns_by_leg ON share_returns (leg_id);
CREATE INDEX share_returns_to_drive ON share_returns (next_drive_at) WHERE collecting;
-- A refund takes back of a leg once. One that failed and went out after all does so anew, next to what came back for it before.
CREATE UNIQUE INDEX share_return_of_refund_once ON share_returns (refund_id, leg_id, attempt);

-- Nothing that was paid becomes unpaid. A closed leg or a refused sharing that the channel reports as paid after all is booked
-- as paid: the money is gone.
-- +goose StatementBegin
CREATE FUNCTION check_share_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'PENDING' THEN
            RAISE EXCEPTION 'sharing %: it begins as PENDING', NEW.out_order_no
                USING ERRCODE = 'check_violation', CONSTRAINT = 'share_move';
        END IF;
        RETURN NEW;
    END IF;
    IF NOT (CASE OLD.state
             WHEN 'PENDING' THEN NEW.state <> 'PENDING'
             WHEN 'UNKNOWN' THEN NEW.state <> 'PENDING'
             WHEN 'PROCESSING' THEN NEW.state IN ('SUCCEEDED', 'PARTIAL', 'FAILED')
             WHEN 'REFUSED' THEN NEW.state IN ('PENDING', 'PARTIAL', 'SUCCEEDED')
             WHEN 'FAILED' THEN NEW.state IN ('PARTIAL', 'SUCCEEDED')
             WHEN 'PARTIAL' THEN NEW.state = 'SUCCEEDED'
             ELSE false
           END) THEN
        RAISE EXCEPTION 'sharing %: no move from % to %', OLD.out_order_no, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'share_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_share_move BEFORE UPDATE OF state ON shares
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION check_share_move();
CREATE TRIGGER check_share_begin BEFORE INSERT ON shares
    FOR EACH ROW EXECUTE FUNCTION check_share_move();

-- +goose StatementBegin
CREATE FUNCTION check_leg_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.state, NEW.state) NOT IN (('PENDING', 'SUCCEEDED'), ('PENDING', 'CLOSED'), ('CLOSED', 'PENDING'), ('CLOSED', 'SUCCEEDED')) THEN
        RAISE EXCEPTION 'leg %: no move from % to %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'leg_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_leg_move BEFORE UPDATE OF state ON share_legs
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION check_leg_move();

-- +goose StatementBegin
CREATE FUNCTION check_return_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.state, NEW.state) NOT IN (('PENDING', 'RETURNED'), ('PENDING', 'DUE'), ('PENDING', 'VOID'), ('DUE', 'OWED'), ('DUE', 'VOID'),
                                      ('OWED', 'CLEARED'), ('OWED', 'VOID')) THEN
        RAISE EXCEPTION 'return %: no move from % to %', OLD.out_return_no, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'return_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_return_move BEFORE UPDATE OF state ON share_returns
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION check_return_move();

CALL isolate_by_tenant('shares');
CALL isolate_by_tenant('share_returns');
CALL isolate_by_tenant('share_legs');

GRANT SELECT ON shares, share_legs, share_returns TO paylatch_api;
GRANT UPDATE (shared_amount, shared_pending) ON payments TO paylatch_engine;
GRANT SELECT, INSERT ON shares, share_legs, share_returns TO paylatch_engine;
GRANT UPDATE (state, reason, out_return_no, attempt, return_id, sends, told_at, collecting, owed_journal_id, journal_id, state_since, next_drive_at) ON share_returns TO paylatch_engine;
GRANT UPDATE (state, reason, share_id, sends, told_at, retries, state_since, ended_at, next_drive_at) ON shares TO paylatch_engine;
GRANT UPDATE (state, reason, journal_id, taken_back, ended_at) ON share_legs TO paylatch_engine;

-- +goose Down
DROP TABLE share_returns, share_legs, shares;
DROP FUNCTION check_return_move();
DROP FUNCTION check_share_move();
DROP FUNCTION check_leg_move();
ALTER TABLE payments DROP COLUMN shared_amount, DROP COLUMN shared_pending;
ALTER TABLE tenants DROP COLUMN refund_of_shared;
ALTER TABLE refunds DROP COLUMN awaited;
REVOKE UPDATE (amount) ON holds FROM paylatch_engine;
