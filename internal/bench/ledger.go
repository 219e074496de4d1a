package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
)

// LedgerConfig is what a run of the ledger's benchmark works on: a database of its own, migrated, with the tenant "bench".
type LedgerConfig struct {
	Pool *pgxpool.Pool
	// OwnerURL is for pgbench, where that is installed.
	OwnerURL string
	// Length of one phase.
	Length time.Duration
	// Callers at once.
	Callers int
	// Grow is how many entries the ledger is grown to before the last phase; 0 leaves it out.
	Grow     int
	Progress io.Writer
}

const (
	tenantName = "bench"
	spreadOver = 1000
	batchSize  = 50
)

// credit is the n-th journal: from one of many accounts that may go negative, to the hot account or to one of many.
func credit(run string, n int64, hot bool) ledger.Journal {
	to := "hot"
	if !hot {
		to = fmt.Sprintf("a%d", n*7919%spreadOver)
	}
	return ledger.Journal{TenantID: tenantName, Key: run + ":" + strconv.FormatInt(n, 10), Kind: "posting", Lines: []ledger.Line{
		{Code: fmt.Sprintf("bank%d", n%spreadOver), Currency: "CNY", Amount: -1, AllowNegative: true},
		{Code: to, Currency: "CNY", Amount: 1},
	}}
}

// Ledger measures postings: one per transaction, gathered, and in batches, spread over a thousand accounts and on one.
func Ledger(ctx context.Context, c LedgerConfig) (*Report, error) {
	report := &Report{}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	for n := range int64(100) {
		if err := ledger.BareBatch(ctx, c.Pool, batch("seed", n)); err != nil {
			return nil, err
		}
	}
	if err := analyze(ctx, c.OwnerURL); err != nil {
		return nil, err
	}
	group := ledger.NewGroup(c.Pool)
	defer group.Stop()
	single := func(hot bool, run string) func(context.Context, int64) (int, error) {
		return func(ctx context.Context, n int64) (int, error) {
			return 1, database.InTx(ctx, c.Pool, func(tx pgx.Tx) error {
				_, _, err := ledger.Post(ctx, tx, credit(run, n, hot))
				return err
			})
		}
	}
	gathered := func(hot bool, run string) func(context.Context, int64) (int, error) {
		return func(ctx context.Context, n int64) (int, error) {
			_, _, err := group.Post(ctx, credit(run, n, hot))
			return 1, err
		}
	}
	results := map[string]Result{}
	for _, phase := range []struct {
		name    string
		callers int
		do      func(context.Context, int64) (int, error)
	}{
		{"one per transaction, spread", c.Callers, single(false, "s")},
		{"one per transaction, one hot account", c.Callers, single(true, "h")},
		{"gathered, spread", c.Callers, gathered(false, "gs")},
		{"gathered, one hot account", c.Callers, gathered(true, "gh")},
		{"batches of 50", 2, c.batches("b")},
		{"batches of 50, bare multi-row loop", 2, c.bareBatches("m")},
		{"a lone caller, one per transaction", 1, single(false, "l")},
		{"a lone caller, gathered", 1, gathered(false, "lg")},
	} {
		result, err := measure(ctx, phase.name, phase.callers, c.Length, phase.do)
		if err != nil {
			return nil, err
		}
		results[phase.name] = report.add(result, c.Progress)
	}
	floor, err := c.pgbench(ctx, report)
	if err != nil {
		return nil, err
	}
	if floor.PerSecond == 0 {
		floor = results["one per transaction, spread"]
	}
	report.ratio("gathered, spread ÷ the same SQL one per transaction (pgbench)", results["gathered, spread"], floor, 2)
	report.ratio("gathered: one hot account ÷ spread", results["gathered, one hot account"], results["gathered, spread"], 0.9)
	report.ratio("one per transaction: one hot account ÷ spread", results["one per transaction, one hot account"], results["one per transaction, spread"], 0)
	report.ratio("batches of 50 ÷ the bare multi-row loop", results["batches of 50"], results["batches of 50, bare multi-row loop"], 0.6)
	report.ratio("a lone caller: gathered ÷ one per transaction", results["a lone caller, gathered"], results["a lone caller, one per transaction"], 0)
	if c.Grow > 0 {
		if err := errors.Join(c.grow(ctx), analyze(ctx, c.OwnerURL)); err != nil {
			return nil, err
		}
		grown, err := measure(ctx, fmt.Sprintf("gathered, spread, %d entries", c.Grow), c.Callers, c.Length, gathered(false, "gg"))
		if err != nil {
			return nil, err
		}
		report.ratio(fmt.Sprintf("%d entries ÷ few", c.Grow), report.add(grown, c.Progress), results["gathered, spread"], 0.9)
	}
	return report, nil
}

// open makes the accounts, so that no phase pays for it.
func (c LedgerConfig) open(ctx context.Context) error {
	return database.InTx(ctx, c.Pool, func(tx pgx.Tx) error {
		lines := []ledger.Line{{Code: "hot", Currency: "CNY"}}
		for i := range spreadOver {
			lines = append(lines, ledger.Line{Code: fmt.Sprintf("a%d", i), Currency: "CNY"}, ledger.Line{Code: fmt.Sprintf("bank%d", i), Currency: "CNY", AllowNegative: true})
		}
		return ledger.Ensure(ctx, tx, tenantName, lines...)
	})
}

func batch(run string, n int64) []ledger.Journal {
	journals := make([]ledger.Journal, batchSize)
	for i := range journals {
		journals[i] = credit(run, n*batchSize+int64(i), false)
	}
	return journals
}

func (c LedgerConfig) batches(run string) func(context.Context, int64) (int, error) {
	return func(ctx context.Context, n int64) (int, error) {
		for _, p := range ledger.PostMany(ctx, c.Pool, batch(run, n)) {
			if p.Err != nil {
				return 0, p.Err
			}
		}
		return batchSize, nil
	}
}

// bareBatches runs the statement of a batch alone, with arrays that are ready.
func (c LedgerConfig) bareBatches(run string) func(context.Context, int64) (int, error) {
	return func(ctx context.Context, n int64) (int, error) {
		return batchSize, ledger.BareBatch(ctx, c.Pool, batch(run, n))
	}
}

const growStep = 500

// grow fills the ledger with journals in batches.
func (c LedgerConfig) grow(ctx context.Context) error {
	var have int
	if err := c.Pool.QueryRow(ctx, "SELECT count(*) FROM entries").Scan(&have); err != nil {
		return err
	}
	begin := time.Now()
	for n := int64(0); have < c.Grow; n++ {
		journals := make([]ledger.Journal, growStep)
		for i := range journals {
			journals[i] = credit("grow", n*growStep+int64(i), false)
		}
		if err := ledger.BareBatch(ctx, c.Pool, journals); err != nil {
			return fmt.Errorf("grow the ledger: %w", err)
		}
		have += 2 * growStep
		if n%200 == 0 {
			fmt.Fprintf(c.Progress, "  growing: %d of %d entries after %s\n", have, c.Grow, time.Since(begin).Round(time.Second))
		}
	}
	return nil
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbench runs the statements of one posting, one per transaction, where it is installed; an empty result where it is not.
func (c LedgerConfig) pgbench(ctx context.Context, report *Report) (Result, error) {
	path, err := exec.LookPath("pgbench")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
		if len(found) == 0 {
			fmt.Fprintln(c.Progress, "  pgbench is not installed: the floor is the plain loop")
			return Result{}, nil
		}
		path = found[len(found)-1]
	}
	script, err := os.CreateTemp("", "paylatch-bench-*.sql")
	if err != nil {
		return Result{}, err
	}
	defer os.Remove(script.Name())
	if _, err := script.WriteString(pgbenchScript()); err != nil {
		return Result{}, err
	}
	if err := script.Close(); err != nil {
		return Result{}, err
	}
	seconds := strconv.Itoa(max(1, int(c.Length.Seconds())))
	// Prepared and without compilation, as the pool does it.
	cmd := exec.CommandContext(ctx, path, "-n", "-M", "prepared", "-c", strconv.Itoa(c.Callers), "-j", "2", "-T", seconds, "-f", script.Name(), c.OwnerURL)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c jit=off")
	out, err := cmd.CombinedOutput()
	match := tps.FindSubmatch(out)
	if err != nil || match == nil {
		return Result{}, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	rate, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		return Result{}, err
	}
	return report.add(Result{Name: "pgbench, the same SQL, spread", PerSecond: rate}, c.Progress), nil
}

func pgbenchScript() string {
	literal := func(sql string, values ...string) string {
		for i := len(values); i > 0; i-- {
			sql = strings.ReplaceAll(sql, "$"+strconv.Itoa(i), values[i-1])
		}
		return sql
	}
	const codes, currencies, amounts, helds = "ARRAY['a' || :a, 'bank' || :b]", "ARRAY['CNY', 'CNY']", "ARRAY[1, -1]::bigint[]", "ARRAY[0, 0]::bigint[]"
	ensure, post := ledger.PostingSQL()
	return "\\set a random(0, 999)\n\\set b random(0, 999)\nBEGIN;\n" +
		literal(ensure, "'bench'", codes, currencies, "ARRAY[false, true]") + ";\n" +
		literal(post, "'bench'", "'pgbench:' || gen_random_uuid()", "'posting'", codes, currencies, amounts, helds) + ";\nCOMMIT;\n"
}
