package database_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// with adds a setting to every session of a database URL.
func with(t *testing.T, databaseURL, setting string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	q := u.Query()
	q.Set("options", q.Get("options")+" -c "+setting)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

func TestADatabaseThatWouldForgetIsRefusedOnEveryConnection(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	require.NoError(t, database.Ready(t.Context(), db.Engine))

	weak, err := database.Open(with(t, db.EngineURL, "synchronous_commit=off"), 2)
	require.NoError(t, err)
	defer weak.Close()
	require.ErrorIs(t, database.Ready(t.Context(), weak), database.ErrNotDurable)
	_, err = weak.Exec(t.Context(), "SELECT 1")
	require.ErrorIs(t, err, database.ErrNotDurable, "no statement runs on such a connection")
	require.ErrorContains(t, err, "synchronous_commit = off")

	// A setting that changes while a connection is open is seen by the next probe.
	_, err = db.Engine.Exec(t.Context(), "SET synchronous_commit = off")
	require.NoError(t, err)
	require.ErrorIs(t, database.Ready(t.Context(), db.Engine), database.ErrNotDurable)
}

func TestAnOldSchemaIsNamed(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	_, err := db.Owner.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id > 1")
	require.NoError(t, err)
	require.ErrorIs(t, database.Ready(t.Context(), db.Engine), database.ErrOldSchema)
	_, err = db.Owner.Exec(t.Context(), "DROP TABLE goose_db_version")
	require.NoError(t, err)
	require.ErrorIs(t, database.Ready(t.Context(), db.Engine), database.ErrOldSchema)
}

func TestAPoolThatSeesAllTenantsIsNotTheAPIs(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	require.NoError(t, database.Isolated(t.Context(), db.API))
	require.ErrorIs(t, database.Isolated(t.Context(), db.Engine), database.ErrNotIsolated)
	require.ErrorIs(t, database.Isolated(t.Context(), db.Owner), database.ErrNotIsolated, "an owner is not isolated, nor is a superuser")
	tx, err := db.Owner.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	// A login that was given both roles has the rights of both.
	_, err = tx.Exec(t.Context(), "CREATE ROLE both_roles_of_a_test NOLOGIN INHERIT IN ROLE paylatch_api, paylatch_engine")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL ROLE both_roles_of_a_test")
	require.NoError(t, err)
	require.ErrorIs(t, database.Isolated(t.Context(), tx), database.ErrNotIsolated)
}

func TestEveryTableOfATenantIsIsolated(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	rows, err := db.Owner.Query(t.Context(), `
SELECT c.relname FROM pg_class c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
   AND has_any_column_privilege('paylatch_api', c.oid, 'SELECT, INSERT, UPDATE')
   AND c.relname <> 'goose_db_version'
   AND NOT (c.relrowsecurity AND EXISTS (
       SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polroles = ARRAY['paylatch_api'::regrole::oid]
          AND pg_get_expr(p.polqual, c.oid) = '(tenant_id = current_tenant())' AND pg_get_expr(p.polwithcheck, c.oid) = '(tenant_id = current_tenant())'))`)
	require.NoError(t, err)
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, open)
	require.Greater(t, db.Count(t, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relrowsecurity"), 15)
	require.Zero(t, db.Count(t, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"), "no function lends its owner's rights")
}

func TestASessionWorksAsItsRole(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	for pool, want := range map[interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}]string{db.Engine: database.RoleEngine, db.API: database.RoleAPI} {
		var role string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_user").Scan(&role))
		require.Equal(t, want, role)
	}
	for _, bad := range []string{"", "not a url", "host=x password=hunter2"} {
		_, err := database.AsRole(bad, "r")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestATransactionThatDeadlocksRunsAgain(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	_, err := db.Owner.Exec(t.Context(), "CREATE TABLE pair (id int PRIMARY KEY, n int); INSERT INTO pair VALUES (1, 0), (2, 0)")
	require.NoError(t, err)
	var both sync.WaitGroup
	both.Add(2)
	var group errgroup.Group
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		first := true
		group.Go(func() error {
			return database.InTx(context.Background(), db.Owner, func(tx pgx.Tx) error {
				if _, err := tx.Exec(context.Background(), "UPDATE pair SET n = n + 1 WHERE id = $1", order[0]); err != nil {
					return err
				}
				if first { // both hold their first row before either asks for its second
					first = false
					both.Done()
					both.Wait()
				}
				_, err := tx.Exec(context.Background(), "UPDATE pair SET n = n + 1 WHERE id = $1", order[1])
				return err
			})
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 4, db.Count(t, "SELECT sum(n) FROM pair"), "each once")
}

func TestAnyOtherErrorRollsBackAndComesBackAsItIs(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	mine := errors.New("mine")
	runs := 0
	err := database.InTx(t.Context(), db.Engine, func(tx pgx.Tx) error {
		runs++
		_, err := tx.Exec(t.Context(), "INSERT INTO tenants (tenant_id, default_currency) VALUES ('x', 'CNY')")
		require.NoError(t, err)
		return mine
	})
	require.ErrorIs(t, err, mine)
	require.Equal(t, 1, runs)
	require.Zero(t, db.Count(t, "SELECT count(*) FROM tenants"))
}

func TestAPoolOpensWithoutItsDatabaseAndSaysSoInTime(t *testing.T) {
	t.Parallel()
	pool, err := database.Open("postgres://u:hunter2@127.0.0.1:1/none", 1)
	require.NoError(t, err)
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err = pool.Ping(ctx)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestOneRoundTripIsOneTransaction(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	_, err := db.Owner.Exec(t.Context(), `
CREATE TABLE notes (n int CONSTRAINT once UNIQUE DEFERRABLE INITIALLY DEFERRED, text text NOT NULL);
GRANT SELECT, INSERT ON notes TO paylatch_engine`)
	require.NoError(t, err)
	write := func(ctx context.Context, texts ...*string) error {
		return database.InOneTrip(ctx, db.Engine, func(q database.Querier) error {
			var batch pgx.Batch
			for _, text := range texts {
				batch.Queue("INSERT INTO notes VALUES (1, $1)", text)
			}
			return q.SendBatch(ctx, &batch).Close()
		})
	}
	text := "a"
	require.Error(t, write(t.Context(), &text, nil))
	require.Zero(t, db.Count(t, "SELECT count(*) FROM notes"), "the first went with the second")
	require.True(t, database.Violated(write(t.Context(), &text, &text), "once"), "what the commit refuses is told")
	require.Zero(t, db.Count(t, "SELECT count(*) FROM notes"))

	refused := errors.New("the claim is lost")
	fenced := database.WithFence(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var n int
		require.NoError(t, tx.QueryRow(ctx, "SELECT count(*) FROM notes").Scan(&n))
		require.Equal(t, 1, n, "asked after the change and before its commit")
		return refused
	})
	require.ErrorIs(t, write(fenced, &text), refused)
	require.Zero(t, db.Count(t, "SELECT count(*) FROM notes"))
	require.NoError(t, write(t.Context(), &text))
	require.Equal(t, 1, db.Count(t, "SELECT count(*) FROM notes"))
}
