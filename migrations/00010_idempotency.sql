-- +goose Up
-- What a merchant's idempotency key stands for: one request, who works on it, and in the end its answer. The effects have keys
-- of their own, for ever; this row only remembers what was answered.
CREATE TABLE idempotency_keys (
    tenant_id    text NOT NULL REFERENCES tenants,
    -- Method and pattern of the path: POST /v1/payments/:out_trade_no/ship.
    route        text NOT NULL,
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    -- SHA-256 of method, concrete path, query and canonical body: the same key with another request is refused.
    fingerprint  bytea NOT NULL CHECK (length(fingerprint) = 32),
    -- Who works on it: random, new with each claim; empty where nobody does. A transaction of another holder does not commit.
    token        bytea NOT NULL CHECK (length(token) IN (0, 16)),
    -- After this time the same request may take an unanswered key over.
    lease_until  timestamptz NOT NULL,
    -- The answer; null while there is none.
    status       smallint,
    content_type text NOT NULL DEFAULT '',
    location     text NOT NULL DEFAULT '',
    body         bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, route, key),
    CONSTRAINT answer_whole CHECK ((status IS NULL) = (body IS NULL))
);
CREATE INDEX idempotency_keys_to_purge ON idempotency_keys (expires_at);

CALL isolate_by_tenant('idempotency_keys');

GRANT SELECT, INSERT, DELETE ON idempotency_keys TO paylatch_api;
GRANT UPDATE (token, lease_until, status, content_type, location, body) ON idempotency_keys TO paylatch_api;
-- The engine's transactions check and complete what the API claimed, and it purges.
GRANT SELECT, DELETE ON idempotency_keys TO paylatch_engine;
GRANT UPDATE (token, lease_until, status, content_type, location, body) ON idempotency_keys TO paylatch_engine;

-- +goose Down
DROP TABLE idempotency_keys;
