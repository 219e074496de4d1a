package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func newLedger(t *testing.T) *testhouse.Database {
	t.Helper()
	db := testhouse.NewDatabase(t)
	for _, name := range []string{"shop", "other"} {
		_, err := tenant.Add(t.Context(), db.Engine, name, "CNY")
		require.NoError(t, err)
	}
	return db
}

func moves(key string, lines ...ledger.Line) ledger.Journal {
	return ledger.Journal{TenantID: "shop", Key: key, Kind: "posting", Lines: lines}
}

func line(code string, amount int64) ledger.Line {
	return ledger.Line{Code: code, Currency: "CNY", Amount: amount, AllowNegative: code == "bank"}
}

func post(ctx context.Context, db *testhouse.Database, j ledger.Journal) (id int64, posted bool, err error) {
	err = database.InTx(ctx, db.Engine, func(tx pgx.Tx) (err error) {
		id, posted, err = ledger.Post(ctx, tx, j)
		return err
	})
	return id, posted, err
}

func balance(t *testing.T, db *testhouse.Database, code string) int {
	t.Helper()
	return db.Count(t, "SELECT coalesce(sum(balance), 0) FROM ledger_accounts WHERE tenant_id = 'shop' AND code = $1", code)
}

func TestAJournalIsPostedOncePerKey(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	first, posted, err := post(t.Context(), db, moves("k", line("bank", -100), line("merchant", 100)))
	require.NoError(t, err)
	require.True(t, posted)

	again, posted, err := post(t.Context(), db, moves("k", line("bank", -7), line("merchant", 7)))
	require.NoError(t, err)
	require.False(t, posted)
	require.Equal(t, first, again)
	require.Equal(t, 100, balance(t, db, "merchant"))
	require.Equal(t, -100, balance(t, db, "bank"))

	// The same key of another tenant is another fact.
	j := moves("k", line("bank", -5), line("merchant", 5))
	j.TenantID = "other"
	_, posted, err = post(t.Context(), db, j)
	require.NoError(t, err)
	require.True(t, posted)
	db.RequireInvariants(t)
}

func TestManyAtOnceUnderOneKeyPostOne(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	var group errgroup.Group
	var posts [30]bool
	for i := range posts {
		group.Go(func() (err error) {
			_, posts[i], err = post(context.Background(), db, moves("k", line("bank", -100), line("merchant", 100)))
			return err
		})
	}
	require.NoError(t, group.Wait())
	count := 0
	for _, posted := range posts {
		if posted {
			count++
		}
	}
	require.Equal(t, 1, count)
	require.Equal(t, 100, balance(t, db, "merchant"))
	db.RequireInvariants(t)
}

func TestABABooksEachTransactionOnce(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	for _, key := range []string{"A", "B", "A", "B", "A"} {
		_, _, err := post(t.Context(), db, moves(key, line("bank", -10), line("merchant", 10)))
		require.NoError(t, err)
	}
	require.Equal(t, 20, balance(t, db, "merchant"))
}

func TestCrossedJournalsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	_, _, err := post(t.Context(), db, moves("fund", line("bank", -2000), line("a", 1000), line("b", 1000)))
	require.NoError(t, err)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(12)
	for i := range 200 {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		group.Go(func() error {
			_, _, err := post(ctx, db, moves(fmt.Sprint(i), line(from, -1), line(to, 1)))
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 1000, balance(t, db, "a"))
	require.Equal(t, 1000, balance(t, db, "b"))
	db.RequireInvariants(t)
}

func TestWhatDoesNotBalanceOrCannotBePaidIsRefused(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	for name, c := range map[string]struct {
		lines []ledger.Line
		want  error
	}{
		"off by one":           {[]ledger.Line{line("bank", -100), line("merchant", 99)}, ledger.ErrUnbalanced},
		"one line":             {[]ledger.Line{line("bank", 0)}, ledger.ErrUnbalanced},
		"nothing":              {nil, ledger.ErrUnbalanced},
		"balanced across two":  {[]ledger.Line{line("bank", -100), {Code: "merchant", Currency: "USD", Amount: 100}}, ledger.ErrUnbalanced},
		"undone by itself":     {[]ledger.Line{line("a", 5), line("a", -5)}, ledger.ErrUnbalanced},
		"beyond 64 bits":       {[]ledger.Line{line("bank", math.MinInt64), line("bank", -1), line("a", math.MaxInt64)}, ledger.ErrUnbalanced},
		"more than there is":   {[]ledger.Line{line("a", -1), line("b", 1)}, ledger.ErrInsufficient},
		"more than was merged": {[]ledger.Line{line("a", -2), line("a", 1), line("b", 1)}, ledger.ErrInsufficient},
	} {
		_, _, err := post(t.Context(), db, moves(name, c.lines...))
		require.ErrorIs(t, err, c.want, name)
	}
	require.Zero(t, db.Count(t, "SELECT count(*) FROM journals"))
	db.RequireInvariants(t)
}

func TestAStatementHasRunningBalancesAndPages(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	for i := 1; i <= 5; i++ {
		_, _, err := post(t.Context(), db, moves(fmt.Sprint("k", i), line("bank", -int64(i)), line("merchant", int64(i))))
		require.NoError(t, err)
	}
	var keys []string
	var before int64
	for {
		var page []ledger.Entry
		require.NoError(t, database.InTenantTx(t.Context(), db.API, "shop", func(tx pgx.Tx) error {
			a, err := ledger.Find(t.Context(), tx, "shop", "merchant", "CNY")
			if err != nil {
				return err
			}
			require.Equal(t, int64(15), a.Balance)
			page, err = ledger.Statement(t.Context(), tx, a.ID, before, 2)
			return err
		}))
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			keys = append(keys, fmt.Sprintf("%s %d", e.JournalKey, e.BalanceAfter))
			before = e.Version
		}
	}
	require.Equal(t, []string{"k5 15", "k4 10", "k3 6", "k2 3", "k1 1"}, keys)
}

// The database holds the rules itself, whoever writes the SQL.
func TestTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	journal, _, err := post(t.Context(), db, moves("k", line("bank", -100), line("merchant", 100)))
	require.NoError(t, err)
	account := func(tenantID, code string) (id int64) {
		require.NoError(t, db.Owner.QueryRow(t.Context(), "SELECT id FROM ledger_accounts WHERE tenant_id = $1 AND code = $2", tenantID, code).Scan(&id))
		return id
	}
	bank, merchant, foreign := account("shop", "bank"), account("shop", "merchant"), account("other", "merchant")

	for name, c := range map[string]struct {
		sql        string
		args       []any
		constraint string
	}{
		"an unbalanced journal": {`
WITH j AS (INSERT INTO journals (tenant_id, key, kind) VALUES ('shop', 'x', 'test') RETURNING id)
INSERT INTO entries SELECT j.id, 1, 'shop', $1::bigint, 50, 150, 2 FROM j UNION ALL SELECT j.id, 2, 'shop', $2::bigint, -49, -149, 2 FROM j`,
			[]any{merchant, bank}, "journal_balanced"},
		"entries added to a journal later": {`
INSERT INTO entries VALUES ($1, 3, 'shop', $2, 50, 150, 2), ($1, 4, 'shop', $3, -50, -150, 2)`,
			[]any{journal, merchant, bank}, "journal_whole"},
		"the same lines again": {`
INSERT INTO entries VALUES ($1, 1, 'shop', $2, 50, 150, 2), ($1, 2, 'shop', $3, -50, -150, 2)`,
			[]any{journal, merchant, bank}, "entries_pkey"},
		"entries without their balances": {`
WITH j AS (INSERT INTO journals (tenant_id, key, kind) VALUES ('shop', 'x', 'test') RETURNING id)
INSERT INTO entries SELECT j.id, 1, 'shop', $1::bigint, 50, 150, 2 FROM j UNION ALL SELECT j.id, 2, 'shop', $2::bigint, -50, -150, 2 FROM j`,
			[]any{merchant, bank}, "balance_follows_entries"},
		"a journal of two tenants": {`
WITH j AS (INSERT INTO journals (tenant_id, key, kind) VALUES ('shop', 'x', 'test') RETURNING id)
INSERT INTO entries SELECT j.id, 1, 'shop', $1::bigint, 50, 50, 1 FROM j UNION ALL SELECT j.id, 2, 'shop', $2::bigint, -50, -150, 2 FROM j`,
			[]any{foreign, bank}, "journal_one_tenant"},
		"a journal without entries":      {"INSERT INTO journals (tenant_id, key, kind) VALUES ('shop', 'x', 'test')", nil, "journal_not_empty"},
		"less than nothing available":    {"UPDATE ledger_accounts SET balance = -1 WHERE id = $1", []any{merchant}, "available_not_negative"},
		"more held than there is":        {"UPDATE ledger_accounts SET held = 101 WHERE id = $1", []any{merchant}, "available_not_negative"},
		"a second journal under one key": {"INSERT INTO journals (tenant_id, key, kind) VALUES ('shop', 'k', 'test')", nil, "journal_once"},
		"an entry of nothing":            {"INSERT INTO entries VALUES ($1, 9, 'shop', $2, 0, 100, 9)", []any{journal, merchant}, "entries_amount_check"},
	} {
		_, err := db.Owner.Exec(t.Context(), c.sql, c.args...)
		require.True(t, database.Violated(err, c.constraint), "%s: %v", name, err)
	}
	for _, sql := range []string{
		"UPDATE entries SET amount = 1", "DELETE FROM entries", "TRUNCATE entries", "TRUNCATE journals CASCADE",
		"UPDATE journals SET key = 'other'", "DELETE FROM journals",
	} {
		_, err := db.Owner.Exec(t.Context(), sql)
		requireCode(t, err, "42501", sql) // even the owner, by the guard
		_, err = db.Engine.Exec(t.Context(), sql)
		requireCode(t, err, "42501", sql)
		_, err = db.API.Exec(t.Context(), sql)
		requireCode(t, err, "42501", sql)
	}
	db.RequireInvariants(t)
}

func TestTheAPIsRoleSeesItsTenantAloneAndWritesNoMoney(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	_, _, err := post(t.Context(), db, moves("k", line("bank", -100), line("merchant", 100)))
	require.NoError(t, err)
	for _, table := range []string{"ledger_accounts", "journals", "entries", "tenants"} {
		for who, want := range map[string]bool{"shop": true, "other": false, "": false} {
			var n int
			require.NoError(t, database.InTenantTx(t.Context(), db.API, who, func(tx pgx.Tx) error {
				return tx.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE tenant_id = 'shop'").Scan(&n)
			}))
			require.Equal(t, want, n > 0, "%s as %q", table, who)
		}
	}
	for _, sql := range []string{
		"UPDATE ledger_accounts SET balance = 1000000", "INSERT INTO journals (tenant_id, key, kind) VALUES ('shop', 'x', 'test')",
		"SELECT config FROM channel_accounts", "SELECT hash FROM api_keys", "SELECT body FROM channel_receipts",
	} {
		err := database.InTenantTx(t.Context(), db.API, "shop", func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), sql)
			return err
		})
		requireCode(t, err, "42501", sql)
	}
}

func requireCode(t *testing.T, err error, code, what string) {
	t.Helper()
	var pg *pgconn.PgError
	require.True(t, errors.As(err, &pg), "%s: %v", what, err)
	require.Equal(t, code, pg.Code, "%s: %v", what, err)
}
