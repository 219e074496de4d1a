package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/migrations"
)

// ErrNotDurable says that the server would acknowledge a commit before it is safe on disk.
var ErrNotDurable = errors.New("the database is not durable")

// ErrOldSchema says that migrations are missing.
var ErrOldSchema = errors.New("the database schema is older than this program: run paylatch migrate up")

// Life is SQL that names the life of the database: its identity since the server started and the events table was made. After
// a restore or a fail-over it is another, so what was remembered of the former one is not asked for. A restart makes it
// another too, which costs speed alone.
const Life = `concat_ws('/', (SELECT oid FROM pg_database WHERE datname = current_database()),
       pg_relation_filenode('channel_events'), extract(epoch FROM pg_postmaster_start_time()))`

// Ready reports whether money may be acknowledged on this database: it answers, its schema is this program's, and a
// commit means "on disk". Errors: [ErrNotDurable], [ErrOldSchema], or what kept it from answering.
func Ready(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Release()
	// A connection that is older than a change of the settings is asked again.
	if err := durable(ctx, conn.Conn()); err != nil {
		return err
	}
	var version int64
	if err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version); err != nil {
		return schemaUnknown(err)
	}
	if version < migrations.Latest() {
		return fmt.Errorf("%w (it has version %d, this program needs %d)", ErrOldSchema, version, migrations.Latest())
	}
	return nil
}

// schemaUnknown tells a database that was never migrated from one that does not answer.
func schemaUnknown(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "42501") {
		return fmt.Errorf("%w (it has no version yet)", ErrOldSchema)
	}
	return fmt.Errorf("read the schema's version: %w", err)
}

// durable reports [ErrNotDurable] and the settings to change unless fsync, full_page_writes and synchronous_commit are on.
func durable(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `
SELECT name || ' = ' || setting FROM pg_settings
 WHERE (name IN ('fsync', 'full_page_writes') AND setting <> 'on')
    OR (name = 'synchronous_commit' AND setting NOT IN ('on', 'remote_apply', 'remote_write', 'local'))`)
	if err != nil {
		return fmt.Errorf("ask the database for its durability settings: %w", err)
	}
	weak, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("ask the database for its durability settings: %w", err)
	}
	if len(weak) > 0 {
		return fmt.Errorf("%w: %v; set each to on, an acknowledged payment must survive a power cut", ErrNotDurable, weak)
	}
	return nil
}
