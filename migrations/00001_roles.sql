-- +goose Up
-- Three roles, from the first migration on:
--   owner            whoever runs the migrations; owns every object
--   paylatch_api     the merchant API: row-level security, one tenant per transaction
--   paylatch_engine  entry, workers, batcher and verify: all tenants, but no right to rewrite history
-- Roles belong to the cluster, not to this database: another database may have made them, or be making them now.
-- +goose StatementBegin
DO $$ BEGIN
    CREATE ROLE paylatch_api NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$ BEGIN
    CREATE ROLE paylatch_engine NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
-- +goose StatementEnd

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
-- A temporary table can stand in for a real one in a query that does not name the schema.
-- +goose StatementBegin
DO $$ BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END $$;
-- +goose StatementEnd
GRANT USAGE ON SCHEMA public TO paylatch_api, paylatch_engine;
-- So that a process can tell an old schema from its own.
GRANT SELECT ON goose_db_version TO paylatch_api, paylatch_engine;

-- The tenant of the current transaction, set by the API with set_config(…, is_local => true); null sees nothing.
-- +goose StatementBegin
CREATE FUNCTION current_tenant() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('paylatch.tenant', true), '') $$;
-- +goose StatementEnd

-- Gives a table with a tenant_id its two policies: the engine sees all, the API its transaction's tenant.
-- +goose StatementBegin
CREATE PROCEDURE isolate_by_tenant(tbl regclass)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tbl);
    EXECUTE format('CREATE POLICY engine ON %s TO paylatch_engine USING (true) WITH CHECK (true)', tbl);
    EXECUTE format('CREATE POLICY tenant ON %s TO paylatch_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', tbl);
END $$;
-- +goose StatementEnd

-- Refuses whatever statement it is attached to: history is only ever added to.
-- +goose StatementBegin
CREATE FUNCTION refuse_rewrite() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % refused: it is append-only', tg_op, tg_table_name
        USING ERRCODE = 'insufficient_privilege', HINT = 'Post a reversing journal instead.';
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION refuse_rewrite();
DROP PROCEDURE isolate_by_tenant(regclass);
DROP FUNCTION current_tenant();
-- The roles stay: other databases of the cluster may use them.
