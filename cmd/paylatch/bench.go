package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
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
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/verify"
	"github.com/paylatch/paylatch/migrations"
	"github.com/paylatch/paylatch/workflows"
)

type benchCommand struct {
	Ledger    benchLedger    `cmd:"" help:"Postings per second beside the same SQL on the same server, in a database of its own."`
	Transfers benchTransfers `cmd:"" help:"Transfers per second beside a flow that does nothing, in a database and a namespace of their own."`
}

type benchFlags struct {
	ownerFlags
	Seconds     int    `help:"Length of one phase (at most 60)." default:"4"`
	Concurrency int    `help:"Callers at once (at most 64)." default:"32"`
	JSON        string `help:"Write the report to this file." name:"json" placeholder:"FILE"`
}

type benchLedger struct {
	benchFlags
	Grow int    `help:"Also compare with a ledger grown to so many entries (at most 10000000)." default:"0"`
	Keep string `help:"Keep the grown ledger in the database of this name, and find it there the next time." placeholder:"NAME"`
}

func (c *benchLedger) Run(ctx context.Context) error {
	if c.Grow < 0 || c.Grow > 10_000_000 {
		return errors.New("--grow is at most 10000000")
	}
	if c.Keep != "" && !strings.HasPrefix(c.Keep, benchPrefix) {
		return errors.New("--keep takes a name that begins with " + benchPrefix)
	}
	report, err := c.run(ctx, func(own benchDatabase) (*bench.Report, error) {
		return bench.Ledger(ctx, c.config(own))
	})
	if err != nil || c.Grow == 0 {
		return errors.Join(err, c.write(report))
	}
	growth, err := c.run(ctx, func(small benchDatabase) (*bench.Report, error) {
		var growth *bench.Report
		return growth, c.in(ctx, c.Keep, func(grown benchDatabase) (err error) {
			growth, err = bench.Growth(ctx, c.config(small), c.config(grown), c.Grow)
			return err
		})
	})
	if err != nil {
		return err
	}
	report.Results, report.Ratios = append(report.Results, growth.Results...), append(report.Ratios, growth.Ratios...)
	return c.write(report)
}

func (c *benchLedger) config(in benchDatabase) bench.LedgerConfig {
	return bench.LedgerConfig{Pool: in.pool, OwnerURL: in.owner, Length: c.length(), Callers: c.Concurrency, Progress: os.Stdout}
}

type benchTransfers struct{ benchFlags }

func (c *benchTransfers) Run(ctx context.Context) error {
	dev, err := c.dev()
	if err != nil {
		return err
	}
	options, err := engine.Options(dev.Temporal, zap.NewNop())
	if err != nil {
		return err
	}
	if options.Namespace, err = scratchNamespace(ctx, options); err != nil {
		return err
	}
	polling, err := engine.Open(options)
	if err != nil {
		return err
	}
	defer polling.Close()
	other, err := engine.Open(options)
	if err != nil {
		return err
	}
	defer other.Close()
	fmt.Println("  waiting for the namespace")
	if err := await(ctx, zap.NewNop(), "the namespace", func(ctx context.Context) error {
		return engine.Register(ctx, polling, options.Namespace, workflows.SearchAttributes())
	}); err != nil {
		return err
	}
	report, err := c.run(ctx, func(own benchDatabase) (*bench.Report, error) {
		return bench.Transfers(ctx, bench.TransfersConfig{
			Pool: own.pool, OwnerURL: own.owner, Worker: polling, Other: other, Length: c.length(), Callers: c.Concurrency, Progress: os.Stdout,
		})
	})
	if err != nil {
		return err
	}
	return c.write(report)
}

func (c benchFlags) length() time.Duration { return time.Duration(c.Seconds) * time.Second }

// benchDatabase is a migrated database with the tenant "bench".
type benchDatabase struct {
	pool  *pgxpool.Pool
	owner string
}

// run measures in a database of its own and prints what it saw.
func (c benchFlags) run(ctx context.Context, do func(own benchDatabase) (*bench.Report, error)) (report *bench.Report, err error) {
	if c.Seconds < 1 || c.Seconds > 60 || c.Concurrency < 1 || c.Concurrency > 64 {
		return nil, errors.New("--seconds is 1 to 60 and --concurrency 1 to 64")
	}
	err = c.in(ctx, "", func(own benchDatabase) (err error) {
		report, err = do(own)
		return err
	})
	if err != nil {
		return nil, err
	}
	report.Print(os.Stdout)
	fmt.Println("\n  the invariants hold")
	return report, nil
}

// in opens a database for a benchmark and verifies it at the end: a run that breaks an invariant fails. Without a name the
// database is a new one, and dropped again.
func (c benchFlags) in(ctx context.Context, name string, do func(benchDatabase) error) error {
	owner, err := c.url()
	if err != nil {
		return err
	}
	own, drop, err := benchDatabaseURL(ctx, owner, name)
	if err != nil {
		return err
	}
	defer drop()
	engineURL, err := database.AsRole(own, database.RoleEngine)
	if err != nil {
		return err
	}
	pool, err := database.Open(engineURL, c.Concurrency)
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

func (c benchFlags) write(report *bench.Report) error {
	if c.JSON == "" || report == nil {
		return nil
	}
	return os.WriteFile(c.JSON, toJSON(report), 0o644)
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
		return "", fmt.Errorf("make a namespace for the benchmark: %w", err)
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
