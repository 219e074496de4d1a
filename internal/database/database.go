// Package database opens the pools and runs transactions: READ COMMITTED, retried where PostgreSQL asks for it, and
// scoped to one tenant where the caller is the merchant API.
package database

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Roles of the schema. A login that is not the role itself but a member of it takes it on with [AsRole].
const (
	RoleAPI    = "paylatch_api"
	RoleEngine = "paylatch_engine"
)

// connectTimeout bounds one attempt to connect: a channel waits for its answer meanwhile.
const connectTimeout = time.Second

// AsRole gives the URL of the same database in which every session works as role. It is understood by libpq as well.
func AsRole(databaseURL, role string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme == "" {
		return "", errors.New("the database URL must look like postgres://user:password@host:port/name")
	}
	q := u.Query()
	q.Set("options", strings.TrimSpace(q.Get("options")+" -c role="+role))
	// libpq does not read + as a space.
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String(), nil
}

// Open makes a pool of at most size connections, none of which will acknowledge a commit before it is on disk ([ErrNotDurable]).
// It does not connect yet: a process may start before its database.
func Open(databaseURL string, size int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		// The parse error may quote the password.
		return nil, errors.New("the database URL cannot be read: it must look like postgres://user:password@host:port/name")
	}
	cfg.MaxConns = int32(size)
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.RuntimeParams["application_name"] = "paylatch"
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	// The engine's promises rest on READ COMMITTED: after a conflict the winner is read in a new snapshot.
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	// Compiling a statement that touches a few rows costs more than running it: 1.1 ms of a posting's 2.9.
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	// A client that was killed in the middle must not keep its locks.
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "60s"
	// Checked where it counts: a setting can be changed for one role, while this process runs.
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return durable(ctx, conn) }
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database pool: %w", err)
	}
	return pool, nil
}

// attempts bounds the retries of one transaction after a deadlock or a serialization failure.
const attempts = 8

// InTx runs do in one transaction and commits it. A transaction that PostgreSQL aborted for the sake of another
// (40001, 40P01) runs again, so do must hold no state of an earlier try. Any other error rolls back and comes back as it is.
// An error of the commit itself leaves the outcome unknown: the caller's key answers what became of it.
func InTx(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	fence, fenced := ctx.Value(fenceKey{}).(Fence)
	return retry(ctx, func() error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			err := do(tx)
			if err == nil && fenced {
				err = fence(ctx, tx)
			}
			return err
		})
	})
}

// Querier is what a pool and a transaction have in common.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// InOneTrip runs do, which makes one round trip: one statement, or one batch. That is a transaction of its own, without the
// round trips of BEGIN and COMMIT. Retried as [InTx] is; under a fence it is one.
func InOneTrip(ctx context.Context, pool *pgxpool.Pool, do func(Querier) error) error {
	if _, fenced := ctx.Value(fenceKey{}).(Fence); fenced {
		return InTx(ctx, pool, func(tx pgx.Tx) error { return do(tx) })
	}
	return retry(ctx, func() error { return do(pool) })
}

// Fence has the last word in a transaction: its error rolls it back.
type Fence func(ctx context.Context, tx pgx.Tx) error

type fenceKey struct{}

// WithFence gives a context under which every [InTx], [InTenantTx] and [InOneTrip] asks fence before it commits.
func WithFence(ctx context.Context, fence Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// InTenantTx is [InTx] for the merchant API: row-level security shows this tenant's rows alone, for this transaction.
func InTenantTx(ctx context.Context, pool *pgxpool.Pool, tenant string, do func(pgx.Tx) error) error {
	return InTx(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('paylatch.tenant', $1, true)", tenant); err != nil {
			return fmt.Errorf("set the tenant of the transaction: %w", err)
		}
		return do(tx)
	})
}

// Last runs what a caller wants done last in the transaction that has come so far: nothing of it after an error.
func Last[Do any](err error, then []Do, run func(Do) error) error {
	for _, do := range then {
		if err == nil {
			err = run(do)
		}
	}
	return err
}

func retry(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || attempt == attempts || !abortedForAnother(err) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(attempt) * int64(10*time.Millisecond)))
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func abortedForAnother(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// Violated tells whether err is the violation of the named constraint.
func Violated(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}
