package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/paylatch/paylatch/internal/bench"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/verify"
	"github.com/paylatch/paylatch/migrations"
	"github.com/paylatch/paylatch/workflows"
)

// benchGround is what benchmarks stand on: a server to make databases on, and a namespace of their own where they need one.
type benchGround struct {
	owner   string
	options client.Options
	client  client.Client // of that namespace; nil without
	display *bench.Display
	ends    []func() error
}

// ground takes the servers of a running dev or of the environment; without either it starts its own, in a directory that goes.
func (f benchFlags) ground(ctx context.Context, withEngine bool) (g *benchGround, err error) {
	g = &benchGround{display: bench.NewDisplay(os.Stdout)}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	dev, err := f.dev()
	if err != nil {
		return g, err
	}
	g.owner = firstOf(f.OwnerDatabaseURL, dev.OwnerDatabaseURL)
	address := dev.Temporal
	if g.owner == "" {
		if address, err = g.start(ctx, withEngine); err != nil {
			return g, err
		}
	}
	if !withEngine {
		return g, nil
	}
	if g.options, err = engine.Options(address, zap.NewNop()); err != nil {
		return g, err
	}
	if g.options.Namespace, err = scratchNamespace(ctx, g.options); err != nil {
		return g, err
	}
	if g.client, err = engine.Open(g.options); err != nil {
		return g, err
	}
	g.ends = append(g.ends, func() error { g.client.Close(); return nil })
	fmt.Fprintln(g.display, "waiting for the namespace")
	return g, await(ctx, zap.NewNop(), "the namespace", func(ctx context.Context) error {
		return engine.Register(ctx, g.client, g.options.Namespace, workflows.SearchAttributes())
	})
}

// start runs servers as paylatch dev does. PostgreSQL does not run as root, so others may pass through the directory.
func (g *benchGround) start(ctx context.Context, withEngine bool) (temporalAddress string, err error) {
	dir, err := os.MkdirTemp("", "paylatch-bench-")
	if err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	g.ends = append(g.ends, func() error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	postgres, err := devstack.StartPostgres(ctx, devstack.PostgresOptions{Dir: filepath.Join(dir, "postgres"), Progress: os.Stderr})
	if err != nil {
		return "", err
	}
	g.ends = append(g.ends, postgres.Stop)
	g.owner = postgres.URL()
	if !withEngine {
		return "", nil
	}
	temporal, err := devstack.StartTemporal(ctx, devstack.TemporalOptions{Dir: filepath.Join(dir, "temporal"), Headless: true, Progress: os.Stderr})
	if err != nil {
		return "", err
	}
	g.ends = append(g.ends, temporal.Stop)
	return temporal.Address(), nil
}

// close ends everything, last first.
func (g *benchGround) close() (err error) {
	for i := len(g.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, g.ends[i]())
	}
	g.ends = nil
	return err
}

func (g *benchGround) house(own benchDatabase, channelName string) (bench.HouseConfig, error) {
	reporter, err := bench.NewReporter(channelName)
	return bench.HouseConfig{OwnerURL: own.owner, Temporal: g.options, Reporter: reporter, Remembered: rememberedEvents, Log: benchLog()}, err
}

func (g *benchGround) callbacks(ctx context.Context, f benchFlags, r reportFlags, a againFlags) (report *bench.Report, err error) {
	err = g.in(ctx, "", f.Concurrency, func(own benchDatabase) error {
		house, err := g.house(own, r.Channel)
		if err != nil {
			return err
		}
		report, err = bench.Callbacks(ctx, bench.CallbacksConfig{
			House: house, N: r.N, Callers: f.Concurrency, Duplicates: a.Duplicates, Display: g.display,
		})
		return err
	})
	return report, err
}

func (g *benchGround) duplicates(ctx context.Context, f benchFlags, t timeFlags, r reportFlags, a ackFlags) (report *bench.Report, err error) {
	err = g.in(ctx, "", f.Concurrency, func(own benchDatabase) error {
		house, err := g.house(own, r.Channel)
		if err != nil {
			return err
		}
		report, err = bench.Duplicates(ctx, bench.DuplicatesConfig{
			House: house, Orders: r.N, Callers: f.Concurrency, Length: t.length(), Acks: a.Acks, Display: g.display,
		})
		return err
	})
	return report, err
}

func (g *benchGround) ledger(ctx context.Context, f benchFlags, t timeFlags) (report *bench.Report, err error) {
	err = g.in(ctx, "", f.Concurrency, func(own benchDatabase) (err error) {
		report, err = bench.Ledger(ctx, g.ledgerConfig(own, f, t))
		return err
	})
	return report, err
}

func (g *benchGround) growth(ctx context.Context, f benchFlags, t timeFlags, grow growFlags) (report *bench.Report, err error) {
	err = g.in(ctx, "", f.Concurrency, func(small benchDatabase) error {
		return g.in(ctx, grow.Keep, f.Concurrency, func(grown benchDatabase) (err error) {
			report, err = bench.Growth(ctx, g.ledgerConfig(small, f, t), g.ledgerConfig(grown, f, t), grow.Grow)
			return err
		})
	})
	return report, err
}

func (g *benchGround) ledgerConfig(in benchDatabase, f benchFlags, t timeFlags) bench.LedgerConfig {
	return bench.LedgerConfig{Pool: in.pool, OwnerURL: in.owner, Length: t.length(), Callers: f.Concurrency, Display: g.display}
}

func (g *benchGround) transfers(ctx context.Context, f benchFlags, t timeFlags) (report *bench.Report, err error) {
	other, err := engine.Open(g.options)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	err = g.in(ctx, "", f.Concurrency, func(own benchDatabase) (err error) {
		report, err = bench.Transfers(ctx, bench.TransfersConfig{
			Pool: own.pool, OwnerURL: own.owner, Worker: g.client, Other: other, Length: t.length(), Callers: f.Concurrency, Display: g.display,
		})
		return err
	})
	return report, err
}

// benchDatabase is a migrated database with the tenant "bench".
type benchDatabase struct {
	pool  *pgxpool.Pool
	owner string
}

// in opens a database for a benchmark and verifies it at the end: a run that breaks an invariant fails. Without a name the
// database is a new one, and dropped again.
func (g *benchGround) in(ctx context.Context, name string, connections int, do func(benchDatabase) error) error {
	own, drop, err := benchDatabaseURL(ctx, g.owner, name)
	if err != nil {
		return err
	}
	defer drop()
	engineURL, err := database.AsRole(own, database.RoleEngine)
	if err != nil {
		return err
	}
	pool, err := database.Open(engineURL, connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := tenant.Add(ctx, pool, "bench", "CNY"); err != nil && !errors.Is(err, tenant.ErrExists) {
		return err
	}
	if err := do(benchDatabase{pool, own}); err != nil {
		return err
	}
	violations, err := verify.Run(ctx, pool, time.Now(), nil)
	if err != nil {
		return err
	}
	if len(violations) > 0 {
		return fmt.Errorf("the run broke %d invariants, the first: %s: %s", len(violations), violations[0].Invariant, violations[0].What)
	}
	return nil
}

// scratchNamespace makes a namespace of the benchmark's own, which the server forgets in a day.
func scratchNamespace(ctx context.Context, options client.Options) (string, error) {
	namespaces, err := client.NewNamespaceClient(options)
	if err != nil {
		return "", fmt.Errorf("connect to Temporal: %w", err)
	}
	defer namespaces.Close()
	name := fmt.Sprintf("paylatch-bench-%d", time.Now().UnixNano())
	err = namespaces.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		return "", fmt.Errorf("make a namespace for the benchmark at %s: %w (does the server run? With --data, paylatch dev must; without it, the benchmark starts its own)", options.HostPort, err)
	}
	return name, nil
}

// benchPrefix begins the names of the benchmarks' databases.
const benchPrefix = "paylatch_bench_"

// benchDatabaseURL makes a migrated database beside the given one, and a function that drops it; one with a name is kept, and
// found the next time.
func benchDatabaseURL(ctx context.Context, owner, name string) (own string, drop func(), err error) {
	u, err := url.Parse(owner)
	if err != nil {
		return "", nil, errors.New("the owner's database URL cannot be read")
	}
	exec := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, owner)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, sql)
		_ = conn.Close(ctx) // it has done what it was opened for
		return err
	}
	drop = func() {}
	if name == "" {
		name = fmt.Sprintf("%s%d", benchPrefix, time.Now().UnixNano())
		drop = func() {
			if err := exec(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
				fmt.Fprintf(os.Stderr, "paylatch: the benchmark's database %s is left behind: %v\n", name, err)
			}
		}
	}
	var there *pgconn.PgError
	err = exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err != nil && !(errors.As(err, &there) && there.Code == "42P04") {
		return "", nil, fmt.Errorf("make a database for the benchmark: %w", err)
	}
	u.Path = "/" + name
	if _, err := migrations.Up(ctx, u.String()); err != nil {
		drop()
		return "", nil, err
	}
	return u.String(), drop, nil
}
