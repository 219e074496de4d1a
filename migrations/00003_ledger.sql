-- +goose Up
CREATE TABLE ledger_accounts (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id      text NOT NULL REFERENCES tenants,
    code           text NOT NULL CHECK (code ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,159}$'),
    currency       text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- Minor units of the currency. available = balance - held.
    balance        bigint NOT NULL DEFAULT 0,
    held           bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    -- Counts changes of balance and held; an entry carries the version that it made.
    version        bigint NOT NULL DEFAULT 0,
    allow_negative boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, code, currency),
    -- Half of what 64 bits hold, so that no sum of two overflows and what is available can always be told.
    CONSTRAINT amounts_in_range CHECK (balance BETWEEN -4611686018427387904 AND 4611686018427387904 AND held <= 4611686018427387904
                                       AND balance - held >= -4611686018427387904),
    CONSTRAINT available_not_negative CHECK (allow_negative OR balance - held >= 0)
);

-- For the gauge of money that waits for a person. The balance is not in the condition: it would cost every hot account its
-- cheap updates.
CREATE INDEX ledger_accounts_suspense ON ledger_accounts (tenant_id) WHERE code = 'suspense';

CREATE TABLE journals (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL REFERENCES tenants,
    -- The business fact that this journal books; the last line of idempotency.
    key       text NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    kind      text NOT NULL,
    posted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT journal_once UNIQUE (tenant_id, key)
);

CREATE TABLE entries (
    journal_id      bigint NOT NULL REFERENCES journals,
    -- 1, 2, 3, … within the journal: with the primary key this closes a journal to later entries.
    line            smallint NOT NULL,
    tenant_id       text NOT NULL,
    account_id      bigint NOT NULL REFERENCES ledger_accounts,
    -- Signed minor units of the account's currency.
    amount          bigint NOT NULL CHECK (amount <> 0),
    -- The account's balance and version right after this entry.
    balance_after   bigint NOT NULL,
    account_version bigint NOT NULL,
    PRIMARY KEY (journal_id, line)
);
-- An account's statement in order, and no two entries that claim the same change.
CREATE UNIQUE INDEX entries_statement ON entries (account_id, account_version);

-- Checks a whole INSERT at once: a journal's entries arrive in one statement. A deferred row constraint would fail a
-- whole batch at commit and name nobody. Tables are named with their schema: a temporary one must not stand in for them.
-- +goose StatementBegin
CREATE FUNCTION check_entries() RETURNS trigger
    LANGUAGE plpgsql AS $$
DECLARE
    bad record;
BEGIN
    SELECT n.journal_id, a.currency, sum(n.amount) AS off INTO bad
      FROM new_entries n JOIN public.ledger_accounts a ON a.id = n.account_id
     GROUP BY n.journal_id, a.currency
    HAVING sum(n.amount) <> 0
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'journal % does not balance in %: off by %', bad.journal_id, bad.currency, bad.off
            USING ERRCODE = 'check_violation', CONSTRAINT = 'journal_balanced';
    END IF;

    SELECT n.journal_id INTO bad
      FROM new_entries n
     GROUP BY n.journal_id
    HAVING min(n.line) <> 1 OR max(n.line) <> count(*) OR count(*) < 2
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'journal %: its entries must be lines 1, 2, … of one statement', bad.journal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'journal_whole';
    END IF;

    SELECT n.journal_id INTO bad
      FROM new_entries n
      JOIN public.journals j ON j.id = n.journal_id
      JOIN public.ledger_accounts a ON a.id = n.account_id
     WHERE n.tenant_id <> j.tenant_id OR n.tenant_id <> a.tenant_id
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'journal % mixes tenants', bad.journal_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'journal_one_tenant';
    END IF;

    -- The newest entry of each account must say what the account says: no entry without its balance.
    SELECT a.id, a.code INTO bad
      FROM (SELECT DISTINCT ON (account_id) account_id, balance_after, account_version
              FROM new_entries ORDER BY account_id, account_version DESC) last
      JOIN public.ledger_accounts a ON a.id = last.account_id
     WHERE a.balance <> last.balance_after OR a.version <> last.account_version
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'account % (%): its entries and its balance disagree', bad.id, bad.code
            USING ERRCODE = 'check_violation', CONSTRAINT = 'balance_follows_entries';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER check_entries AFTER INSERT ON entries
    REFERENCING NEW TABLE AS new_entries
    FOR EACH STATEMENT EXECUTE FUNCTION check_entries();

-- +goose StatementBegin
CREATE FUNCTION check_journal_has_entries() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM public.entries WHERE journal_id = NEW.id AND line = 1) THEN
        RAISE EXCEPTION 'journal % (%) has no entries', NEW.id, NEW.key
            USING ERRCODE = 'check_violation', CONSTRAINT = 'journal_not_empty';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER check_journal_has_entries AFTER INSERT ON journals
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION check_journal_has_entries();

-- Append-only by guard, for everybody …
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON journals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

CALL isolate_by_tenant('ledger_accounts');
CALL isolate_by_tenant('journals');
CALL isolate_by_tenant('entries');

-- … and by grant: neither role may update or delete.
GRANT SELECT ON ledger_accounts, journals, entries TO paylatch_api;
GRANT SELECT, INSERT ON ledger_accounts, journals, entries TO paylatch_engine;
GRANT UPDATE (balance, held, version) ON ledger_accounts TO paylatch_engine;

-- +goose Down
DROP TABLE entries, journals, ledger_accounts;
DROP FUNCTION check_entries();
DROP FUNCTION check_journal_has_entries();
