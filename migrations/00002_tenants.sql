-- +goose Up
CREATE TABLE tenants (
    -- The id is the name an operator gave: it is part of every workflow id, so it is short and plain.
    tenant_id        text PRIMARY KEY CHECK (tenant_id ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    default_currency text NOT NULL CHECK (default_currency ~ '^[A-Z]{3}$'),
    created_at       timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants,
    -- What a person may see of the key; the key itself is never stored.
    prefix     text NOT NULL,
    hash       bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id);

CREATE TABLE channel_accounts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants,
    channel    text NOT NULL,
    -- The name in the callback URL, /callbacks/{channel}/{account}.
    account    text NOT NULL CHECK (account ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    -- The channel's own identity of the account, so that one merchant cannot be configured twice and be paid twice.
    identity   text NOT NULL,
    -- Sealed with the master key (AES-256-GCM): it holds secrets.
    config     bytea NOT NULL,
    -- Counts changes of the configuration, so that a process knows when to open it again.
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (channel, account),
    UNIQUE (channel, identity)
);

CALL isolate_by_tenant('tenants');
CALL isolate_by_tenant('api_keys');
CALL isolate_by_tenant('channel_accounts');

GRANT SELECT ON tenants TO paylatch_api;
GRANT SELECT (id, tenant_id, channel, account, identity, created_at, updated_at) ON channel_accounts TO paylatch_api;

GRANT SELECT, INSERT ON tenants TO paylatch_engine;
GRANT SELECT, INSERT ON api_keys TO paylatch_engine;
GRANT UPDATE (revoked_at) ON api_keys TO paylatch_engine;
GRANT SELECT, INSERT ON channel_accounts TO paylatch_engine;
GRANT UPDATE (config, version, updated_at) ON channel_accounts TO paylatch_engine;

-- +goose Down
DROP TABLE channel_accounts, api_keys, tenants;
