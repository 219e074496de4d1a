-- +goose Up
-- An amount set aside on an account: captured in parts or whole, and the rest released. Open is what is neither.
CREATE TABLE holds (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants,
    account_id bigint NOT NULL REFERENCES ledger_accounts,
    key        text NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    amount     bigint NOT NULL CHECK (amount > 0),
    captured   bigint NOT NULL DEFAULT 0 CHECK (captured >= 0),
    released   bigint NOT NULL DEFAULT 0 CHECK (released >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT hold_once UNIQUE (tenant_id, key),
    CONSTRAINT hold_not_exceeded CHECK (captured + released <= amount)
);
CREATE INDEX holds_open ON holds (account_id) WHERE captured + released < amount;

-- One row decides between the phases of a branch: (gid, branch, 'try') between Try and an early Cancel, (gid, branch, 'end')
-- between Confirm and Cancel. gid is the workflow id, tenant included, without an attempt number.
CREATE TABLE fences (
    gid        text NOT NULL,
    branch     text NOT NULL,
    phase      text NOT NULL CHECK (phase IN ('try', 'end')),
    -- Who wrote the row: try or cancel in phase try; confirm or cancel in phase end.
    by         text NOT NULL CHECK ((phase, by) IN (('try', 'try'), ('try', 'cancel'), ('end', 'confirm'), ('end', 'cancel'))),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (gid, branch, phase)
);
CREATE INDEX fences_to_purge ON fences (created_at) WHERE phase = 'end';

CREATE TABLE stock (
    tenant_id  text NOT NULL REFERENCES tenants,
    sku        text NOT NULL CHECK (sku ~ '^[A-Za-z0-9_.|*-]{1,64}$'),
    -- What is there, reserved included; it falls when the reservation is confirmed.
    on_hand    bigint NOT NULL CHECK (on_hand >= 0),
    reserved   bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    version    bigint NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, sku),
    CONSTRAINT not_oversold CHECK (reserved <= on_hand)
);

CREATE TABLE reservations (
    tenant_id  text NOT NULL,
    -- What it is for: pay/{out_trade_no}, or the transfer's gid.
    key        text NOT NULL,
    sku        text NOT NULL,
    quantity   bigint NOT NULL CHECK (quantity > 0),
    state      text NOT NULL DEFAULT 'HELD' CHECK (state IN ('HELD', 'CONFIRMED', 'RELEASED')),
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    PRIMARY KEY (tenant_id, key, sku),
    FOREIGN KEY (tenant_id, sku) REFERENCES stock
);
CREATE INDEX reservations_held ON reservations (tenant_id, sku) WHERE state = 'HELD';

-- External systems that take part in transfers; registered by an operator, so that a request names no address.
CREATE TABLE participants (
    tenant_id  text NOT NULL REFERENCES tenants,
    name       text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    -- Sealed with the master key: three URLs and the secret that signs the calls.
    config     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE transfers (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id       text NOT NULL REFERENCES tenants,
    -- The merchant's own names of the transfer; at least one. The same name is the same transfer.
    reference       text CHECK (length(reference) BETWEEN 1 AND 255),
    idempotency_key text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    -- Its name in fences, holds and reservations; the workflow's id is made of it.
    gid             text NOT NULL GENERATED ALWAYS AS ('transfer/' || tenant_id || '/' || coalesce('ref:' || reference, 'key:' || idempotency_key)) STORED UNIQUE,
    fingerprint     bytea NOT NULL CHECK (length(fingerprint) = 32),
    mode            text NOT NULL CHECK (mode IN ('direct', 'tcc')),
    state           text NOT NULL DEFAULT 'TRYING' CHECK (state IN ('TRYING', 'CONFIRMING', 'CANCELLING', 'CONFIRMED', 'CANCELLED')),
    -- Why it was cancelled: a stable code.
    failure         text,
    legs            json NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    decided_at      timestamptz,
    ended_at        timestamptz,
    -- When the re-drive looks at it while it is not at its end.
    next_drive_at   timestamptz NOT NULL,
    CONSTRAINT transfer_ended CHECK ((state IN ('CONFIRMED', 'CANCELLED')) = (ended_at IS NOT NULL)),
    CONSTRAINT transfer_named CHECK (reference IS NOT NULL OR idempotency_key IS NOT NULL),
    CONSTRAINT transfer_reference_once UNIQUE (tenant_id, reference),
    CONSTRAINT transfer_key_once UNIQUE (tenant_id, idempotency_key)
);
-- Every idempotency key that was sent for a transfer: a second key with the same reference is the same transfer, and belongs
-- to it from then on.
CREATE TABLE transfer_keys (
    tenant_id   text NOT NULL,
    key         text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    transfer_id bigint NOT NULL REFERENCES transfers,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX transfers_newest ON transfers (tenant_id, id DESC);
CREATE INDEX transfers_to_drive ON transfers (next_drive_at) WHERE state IN ('TRYING', 'CONFIRMING', 'CANCELLING');

-- After the decision nothing turns back; only a transfer without a flow goes to its end at once.
-- +goose StatementBegin
CREATE FUNCTION check_transfer_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'TRYING' THEN
            RAISE EXCEPTION 'a transfer begins as TRYING'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_move';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('TRYING', 'CONFIRMING'), ('TRYING', 'CANCELLING'), ('CONFIRMING', 'CONFIRMED'), ('CANCELLING', 'CANCELLED'))
       AND NOT (OLD.mode = 'direct' AND OLD.state = 'TRYING' AND NEW.state IN ('CONFIRMED', 'CANCELLED')) THEN
        RAISE EXCEPTION 'transfer %: no move from % to %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_transfer_move BEFORE UPDATE OF state ON transfers
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION check_transfer_move();
CREATE TRIGGER check_transfer_begin BEFORE INSERT ON transfers
    FOR EACH ROW EXECUTE FUNCTION check_transfer_move();

-- One code per order that asked for one, issued by the transaction that credits it.
CREATE TABLE redemption_codes (
    payment_id bigint PRIMARY KEY REFERENCES payments,
    tenant_id  text NOT NULL REFERENCES tenants,
    code       text NOT NULL,
    issued_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, code)
);
ALTER TABLE payments ADD COLUMN items json NOT NULL DEFAULT '[]', ADD COLUMN wants_code boolean NOT NULL DEFAULT false;
CREATE INDEX payments_with_items_to_expire ON payments (expires_at) WHERE state = 'PENDING' AND items::text <> '[]';

CALL isolate_by_tenant('holds');
CALL isolate_by_tenant('stock');
CALL isolate_by_tenant('reservations');
CALL isolate_by_tenant('participants');
CALL isolate_by_tenant('transfers');
CALL isolate_by_tenant('transfer_keys');
CALL isolate_by_tenant('redemption_codes');

GRANT INSERT (items, wants_code) ON payments TO paylatch_api;
GRANT SELECT ON holds, transfers, redemption_codes TO paylatch_api;
GRANT SELECT, INSERT, UPDATE (on_hand, reserved, version, updated_at) ON stock TO paylatch_api;
GRANT SELECT, INSERT, UPDATE (state, ended_at) ON reservations TO paylatch_api;

GRANT SELECT, INSERT, UPDATE (captured, released) ON holds TO paylatch_engine;
GRANT SELECT, INSERT, DELETE ON fences TO paylatch_engine;
GRANT SELECT, UPDATE (on_hand, reserved, version, updated_at) ON stock TO paylatch_engine;
GRANT SELECT, INSERT, UPDATE (state, ended_at) ON reservations TO paylatch_engine;
GRANT SELECT, INSERT, UPDATE (config, updated_at) ON participants TO paylatch_engine;
GRANT SELECT, INSERT, UPDATE (state, failure, decided_at, ended_at, next_drive_at) ON transfers TO paylatch_engine;
GRANT SELECT, INSERT ON transfer_keys TO paylatch_engine;
GRANT SELECT, INSERT ON redemption_codes TO paylatch_engine;

-- +goose Down
ALTER TABLE payments DROP COLUMN items, DROP COLUMN wants_code;
DROP TABLE redemption_codes, transfer_keys, transfers, participants, reservations, stock, fences, holds;
DROP FUNCTION check_transfer_move();
