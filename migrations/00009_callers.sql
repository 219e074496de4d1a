-- +goose Up
ALTER TABLE api_keys
    -- What the key may do. Keys of before may do everything, as they could; so may those that a program of the old version makes.
    ADD COLUMN scopes text[] NOT NULL DEFAULT '{admin}',
    -- What people call it.
    ADD COLUMN name text NOT NULL DEFAULT '' CHECK (length(name) <= 64),
    -- Noted every few minutes: who rotates a key wants to know when nobody uses the old one any more.
    ADD COLUMN last_used_at timestamptz,
    ADD CONSTRAINT key_has_scopes CHECK (cardinality(scopes) > 0 AND scopes <@ '{read,write,refund,admin}');

GRANT UPDATE (last_used_at) ON api_keys TO paylatch_engine;
-- Not the hash.
GRANT SELECT (id, tenant_id, prefix, name, scopes, created_at, last_used_at, revoked_at) ON api_keys TO paylatch_api;

-- What operators did: by a key of the API, or on the command line.
CREATE TABLE audit_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants,
    at         timestamptz NOT NULL DEFAULT now(),
    -- The prefix of an API key, or the command line and its user.
    actor      text NOT NULL,
    action     text NOT NULL,
    -- What it was done to.
    target     text NOT NULL,
    -- What a person wants to know beside: a reason, a quantity. Never a secret.
    detail     text NOT NULL DEFAULT '',
    -- The X-Request-Id of the answer; empty on the command line.
    request_id text NOT NULL DEFAULT ''
);
CREATE INDEX audit_newest ON audit_log (tenant_id, id DESC);

-- +goose StatementBegin
CREATE FUNCTION refuse_audit_rewrite() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % refused: what was done stays on record', tg_op, tg_table_name
        USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_rewrite();

CALL isolate_by_tenant('audit_log');
GRANT SELECT, INSERT ON audit_log TO paylatch_api, paylatch_engine;

-- +goose Down
DROP TABLE audit_log;
DROP FUNCTION refuse_audit_rewrite();
ALTER TABLE api_keys DROP COLUMN scopes, DROP COLUMN name, DROP COLUMN last_used_at;
