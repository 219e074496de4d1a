package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
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
	Grow int `help:"Grow the ledger to so many entries and measure again (at most 10000000)." default:"0"`
}

func (c *benchLedger) Run(ctx context.Context) error {
	if c.Grow < 0 || c.Grow > 10_000_000 {
		return errors.New("--grow is at most 10000000")
	}
	return c.run(ctx, func(pool *pgxpool.Pool, owner string) (*bench.Report, error) {
		return bench.Ledger(ctx, bench.LedgerConfig{
			Pool: pool, OwnerURL: owner, Length: c.length(), Callers: c.Concurrency, Grow: c.Grow, Progress: os.Stdout,
		})
	})
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
	return c.run(ctx, func(pool *pgxpool.Pool, owner string) (*bench.Report, error) {
		return bench.Transfers(ctx, bench.TransfersConfig{
			Pool: pool, OwnerURL: owner, Worker: polling, Other: other, Length: c.length(), Callers: c.Concurrency, Progress: os.Stdout,
		})
	})
}

func (c benchFlags) length() time.Duration { return time.Duration(c.Seconds) * time.Second }

// run measures in a database of its own, and verifies it: a run that breaks an invariant fails.
func (c benchFlags) run(ctx context.Context, do func(pool *pgxpool.Pool, owner string) (*bench.Report, error)) error {
	if c.Seconds < 1 || c.Seconds > 60 || c.Concurrency < 1 || c.Concurrency > 64 {
		return errors.New("--seconds is 1 to 60 and --concurrency 1 to 64")
	}
	owner, err := c.url()
	if err != nil {
		return err
	}
	own, drop, err := scratchDatabase(ctx, owner)
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
	if _, err := tenant.Add(ctx, pool, "bench", "CNY"); err != nil {
		return err
	}
	report, err := do(pool, own)
	if err != nil {
		return err
	}
	report.Print(os.Stdout)
	violations, err := verify.Run(ctx, pool, time.Now(), nil)
	if err != nil {
		return err
	}
	if len(violations) > 0 {
		return fmt.Errorf("the run broke %d invariants, the first: %s: %s", len(violations), violations[0].Invariant, violations[0].What)
	}
	fmt.Println("\n  the invariants hold")
	if c.JSON != "" {
		return os.WriteFile(c.JSON, toJSON(report), 0o644)
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
		return "", fmt.Errorf("make a namespace for the benchmark: %w", err)
	}
	return name, nil
}

// scratchDatabase makes a migrated database beside the given one, and a function that drops it.
func scratchDatabase(ctx context.Context, owner string) (scratch string, drop func(), err error) {
	u, err := url.Parse(owner)
	if err != nil {
		return "", nil, errors.New("the owner's database URL cannot be read")
	}
	name := fmt.Sprintf("paylatch_bench_%d", time.Now().UnixNano())
	exec := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, owner)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, sql)
		_ = conn.Close(ctx) // it has done what it was opened for
		return err
	}
	if err := exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, fmt.Errorf("make a database for the benchmark: %w", err)
	}
	drop = func() {
		if err := exec(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			fmt.Fprintf(os.Stderr, "paylatch: the benchmark's database %s is left behind: %v\n", name, err)
		}
	}
	u.Path = "/" + name
	if _, err := migrations.Up(ctx, u.String()); err != nil {
		drop()
		return "", nil, err
	}
	return u.String(), drop, nil
}
