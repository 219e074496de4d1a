package bench

import (
	"context"
	"fmt"
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
	Display *Display
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
	report := &Report{Benchmark: "ledger"}
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
	for _, p := range []*phase{
		{name: "one per transaction, spread", callers: c.Callers, do: single(false, "s")},
		{name: "one per transaction, one hot account", callers: c.Callers, do: single(true, "h")},
		{name: "gathered, spread", callers: c.Callers, do: gathered(false, "gs")},
		{name: "gathered, one hot account", callers: c.Callers, do: gathered(true, "gh")},
		{name: "batches of 50", callers: 2, do: c.batches("b")},
		{name: "batches of 50, bare multi-row loop", floor: true, callers: 2, do: c.bareBatches("m")},
		{name: "a lone caller, one per transaction", callers: 1, do: single(false, "l")},
		{name: "a lone caller, gathered", callers: 1, do: gathered(false, "lg")},
	} {
		result, err := measure(ctx, c.Length, c.Display, p)
		if err != nil {
			return nil, err
		}
		results[p.name] = report.add(result, c.Display)
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

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbench runs the statements of one posting, one per transaction, where it is installed; an empty result where it is not.
func (c LedgerConfig) pgbench(ctx context.Context, report *Report) (Result, error) {
	path, err := exec.LookPath("pgbench")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
		if len(found) == 0 {
			fmt.Fprintln(c.Display, "  pgbench is not installed: the floor is the plain loop")
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
	return report.add(Result{Name: "pgbench, the same SQL, spread", Floor: true, PerSecond: rate}, c.Display), nil
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
