package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/paylatch/paylatch/internal/ledger"
)

// smallLedger is how many entries the ledger has at first that a grown one is compared with.
const smallLedger = 10_000

// Growth measures postings into a grown ledger beside postings into a small one, in turns. Both are two databases of one
// server, and both rest first: what a load leaves behind (dirty pages, dead rows, missing statistics) a ledger that grew over
// months does not have.
func Growth(ctx context.Context, small, grown LedgerConfig, entries int) (*Report, error) {
	report := &Report{Benchmark: "growth"}
	phases := make([]*phase, 2)
	for i, c := range []LedgerConfig{small, grown} {
		want := []int{smallLedger, entries}[i]
		if err := errors.Join(c.open(ctx), c.grow(ctx, want)); err != nil {
			return nil, err
		}
		group := ledger.NewGroup(c.Pool)
		defer group.Stop()
		// A ledger that is kept has the names of earlier runs.
		run := fmt.Sprintf("grown%d", time.Now().UnixNano())
		phases[i] = &phase{name: fmt.Sprintf("gathered, spread, from %d entries on", want), callers: c.Callers, do: func(ctx context.Context, n int64) (int, error) {
			_, _, err := group.Post(ctx, credit(run, n, false))
			return 1, err
		}}
	}
	for _, c := range []LedgerConfig{small, grown} {
		if err := c.rest(ctx); err != nil {
			return nil, err
		}
	}
	results, err := alternate(ctx, small.Length, small.Display, phases...)
	if err != nil {
		return nil, err
	}
	few, many := report.add(results[0], small.Display), report.add(results[1], small.Display)
	report.ratio(fmt.Sprintf("%d entries ÷ %d", entries, smallLedger), many, few, 0.9)
	return report, nil
}

const growStep = 500

// grow fills the ledger with journals in batches, up to so many entries.
func (c LedgerConfig) grow(ctx context.Context, entries int) error {
	var have int
	if err := c.Pool.QueryRow(ctx, "SELECT count(*) FROM entries").Scan(&have); err != nil {
		return err
	}
	begin := time.Now()
	run := fmt.Sprintf("grow%d", have)
	for n := int64(0); have < entries; n++ {
		journals := make([]ledger.Journal, growStep)
		for i := range journals {
			journals[i] = credit(run, n*growStep+int64(i), false)
		}
		if err := ledger.BareBatch(ctx, c.Pool, journals); err != nil {
			return fmt.Errorf("grow the ledger: %w", err)
		}
		have += 2 * growStep
		if n%200 == 0 {
			fmt.Fprintf(c.Display, "  growing: %d of %d entries after %s\n", have, entries, time.Since(begin).Round(time.Second))
		}
	}
	return nil
}

// rest does what time does to a running system: vacuum, statistics, and pages written back.
func (c LedgerConfig) rest(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.OwnerURL)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "VACUUM (ANALYZE)")
	if err == nil {
		var denied *pgconn.PgError
		if _, err = conn.Exec(ctx, "CHECKPOINT"); errors.As(err, &denied) && denied.Code == "42501" {
			fmt.Fprintln(c.Display, "  this role may not ask for a checkpoint: pages may still be written back while it is measured")
			err = nil
		}
	}
	return errors.Join(err, conn.Close(ctx))
}
