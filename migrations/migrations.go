// Package migrations holds the database schema as numbered SQL files and applies them.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver that goose works through
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Applied is one migration that Up has applied now.
type Applied struct {
	Version int64
	Name    string
}

// State tells of one migration whether the database has it.
type State struct {
	Version int64
	Name    string
	Applied bool
}

// Up applies what is missing, each migration in its own transaction. It takes a session lock, so any number of
// processes may call it at once. The URL must be the owner's: it creates roles, tables and grants.
func Up(ctx context.Context, ownerURL string) (applied []Applied, err error) {
	err = withProvider(ownerURL, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			applied = append(applied, Applied{r.Source.Version, r.Source.Path})
		}
		return err
	})
	if err != nil {
		return applied, fmt.Errorf("apply migrations: %w", err)
	}
	return applied, nil
}

// Status lists all migrations, oldest first.
func Status(ctx context.Context, url string) (states []State, err error) {
	err = withProvider(url, func(p *goose.Provider) error {
		all, err := p.Status(ctx)
		for _, s := range all {
			states = append(states, State{s.Source.Version, s.Source.Path, s.State == goose.StateApplied})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the migration status: %w", err)
	}
	return states, nil
}

// Latest is the version of the newest migration that this binary carries.
func Latest() int64 {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("no embedded migrations (%v)", err))
	}
	latest, err := goose.NumericComponent(names[len(names)-1])
	if err != nil {
		panic(fmt.Sprintf("embedded migrations: %v", err))
	}
	return latest
}

func withProvider(url string, do func(*goose.Provider) error) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	return do(p)
}
