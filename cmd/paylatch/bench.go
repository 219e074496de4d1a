package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/bench"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/verify"
	"github.com/paylatch/paylatch/migrations"
)

type benchCommand struct {
	Ledger benchLedger `cmd:"" help:"Postings per second beside the same SQL on the same server, in a database of its own."`
}

type benchLedger struct {
	ownerFlags
	Seconds     int    `help:"Length of one phase (at most 60)." default:"4"`
	Concurrency int    `help:"Callers at once (at most 64)." default:"32"`
	Grow        int    `help:"Grow the ledger to so many entries and measure again (at most 10000000)." default:"0"`
	JSON        string `help:"Write the report to this file." name:"json" placeholder:"FILE"`
}

func (c *benchLedger) Run(ctx context.Context) error {
	if c.Seconds < 1 || c.Seconds > 60 || c.Concurrency < 1 || c.Concurrency > 64 || c.Grow < 0 || c.Grow > 10_000_000 {
		return fmt.Errorf("--seconds is 1 to 60, --concurrency 1 to 64, --grow at most 10000000")
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
	report, err := bench.Ledger(ctx, bench.LedgerConfig{
		Pool: pool, OwnerURL: own, Length: time.Duration(c.Seconds) * time.Second, Callers: c.Concurrency, Grow: c.Grow, Progress: os.Stdout,
	})
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

// scratchDatabase makes a migrated database beside the given one, and a function that drops it.
func scratchDatabase(ctx context.Context, owner string) (scratch string, drop func(), err error) {
	u, err := url.Parse(owner)
	if err != nil {
		return "", nil, fmt.Errorf("the owner's database URL cannot be read")
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
