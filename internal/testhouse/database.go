// Package testhouse builds what tests stand on: a migrated database of their own on a real PostgreSQL, and the whole
// house on it. A package that uses it starts the servers in its TestMain with devstack.Main.
package testhouse

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/verify"
	"github.com/paylatch/paylatch/migrations"
)

// Database is a migrated database of one test.
type Database struct {
	OwnerURL, EngineURL, APIURL string
	Owner, Engine, API          *pgxpool.Pool
}

var (
	template     = fmt.Sprintf("paylatch_template_%d", os.Getpid())
	makeTemplate = sync.OnceValue(func() error {
		ctx := context.Background()
		if err := execOnServer(ctx, "CREATE DATABASE "+template); err != nil {
			return err
		}
		_, err := migrations.Up(ctx, urlOf(template))
		return err
	})
	databases atomic.Int64
	// A template can be copied by one session at a time.
	copying sync.Mutex
)

// NewDatabase copies the migrated template; the copy goes with the test.
func NewDatabase(t testing.TB) *Database {
	t.Helper()
	require.NoError(t, makeTemplate())
	name := fmt.Sprintf("paylatch_test_%d_%d", os.Getpid(), databases.Add(1))
	copying.Lock()
	err := execOnServer(t.Context(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
	copying.Unlock()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = execOnServer(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") // the server may be down by intent; it goes with the run
	})
	db := &Database{OwnerURL: urlOf(name)}
	db.EngineURL, err = database.AsRole(db.OwnerURL, database.RoleEngine)
	require.NoError(t, err)
	db.APIURL, err = database.AsRole(db.OwnerURL, database.RoleAPI)
	require.NoError(t, err)
	db.Owner = openPool(t, db.OwnerURL)
	db.Engine = openPool(t, db.EngineURL)
	db.API = openPool(t, db.APIURL)
	return db
}

func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := database.Open(url, 16)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func urlOf(name string) string {
	u, err := url.Parse(devstack.TestPostgres().URL())
	if err != nil {
		panic(err) // devstack made it
	}
	u.Path = "/" + name
	return u.String()
}

func execOnServer(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, devstack.TestPostgres().URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// RequireInvariants fails the test unless every invariant of the books holds.
func (d *Database) RequireInvariants(t testing.TB) {
	t.Helper()
	violations, err := verify.Run(t.Context(), d.Engine, time.Now(), nil)
	require.NoError(t, err)
	require.Empty(t, violations)
}

// Count runs a query that gives one number, as the owner.
func (d *Database) Count(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, d.Owner.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}
