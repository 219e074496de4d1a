package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/bench"
)

func TestBenchAllStartsServersOfItsOwnAndWritesEveryFigure(t *testing.T) {
	dir := t.TempDir()
	file, plot := filepath.Join(dir, "bench.json"), filepath.Join(dir, "bench.svg")
	said := output(t, "bench", "all", "--n", "20", "--concurrency", "4", "--seconds", "0.1", "--acks", "500", "--duplicates", "1",
		"--json", file, "--plot", plot, "--profile", dir)
	require.Contains(t, said, "the invariants hold")

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var run bench.Run
	require.NoError(t, json.Unmarshal(text, &run))
	require.Equal(t, bench.Asked{N: 20, Channel: "standard", Concurrency: 4, Duplicates: 1, Acks: 500, Seconds: 0.1}, run.Asked)
	require.Equal(t, "hold", run.Invariants)
	require.NotEmpty(t, run.Machine.PostgreSQL)
	require.NotEmpty(t, run.Machine.Temporal)
	require.NotContains(t, string(text), "postgres://")

	var names []string
	for _, b := range run.Benchmarks {
		names = append(names, b.Benchmark)
		if b.Benchmark == "transfers" {
			continue // in a turn of a tenth of a second a busy machine may end none
		}
		for _, r := range b.Results {
			require.Positive(t, r.PerSecond, r.Name)
		}
		for _, r := range b.Ratios {
			require.Positive(t, r.Value, r.Name)
		}
	}
	require.Equal(t, []string{"callbacks", "duplicates", "ledger", "transfers"}, names)
	requireCallbacks(t, run.Benchmarks[0])
	requireDuplicates(t, run.Benchmarks[1])

	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "payments credited")
	for _, name := range names {
		require.FileExists(t, filepath.Join(dir, name+".cpu.pprof"))
		require.FileExists(t, filepath.Join(dir, name+".heap.pprof"))
	}
}

func requireCallbacks(t *testing.T, b *bench.Report) {
	t.Helper()
	require.Len(t, b.WarmUps, 2)
	for _, mode := range []string{", in one process", ", apart"} {
		for _, name := range []string{"a flow of one empty step", "callbacks accepted", "payments credited"} {
			r := resultOf(t, b, name+mode)
			require.Positive(t, r.P50, r.Name)
			require.LessOrEqual(t, r.P50, r.P95, r.Name)
			require.LessOrEqual(t, r.P95, r.P99, r.Name)
			require.Equal(t, name == "a flow of one empty step", r.Floor, r.Name)
		}
		require.InDelta(t, 0.85, ratioOf(t, b, "credited payments ÷ flows of one empty step"+mode).Goal, 0)
		for _, name := range []string{
			"history events per payment", "state transitions per payment", "workflow tasks per payment", "processor time of the process per payment",
			"peak memory of the process",
		} {
			f := figureOf(t, b, name+mode)
			require.Positive(t, f.Value, f.Name)
			require.NotNil(t, f.Floor, f.Name)
			require.Positive(t, *f.Floor, f.Name)
		}
		for _, name := range []string{
			"database transactions per payment, at the entry", "database transactions per payment, when it is booked",
			"round trips to the database per payment, at the entry", "round trips to the database per payment, when it is booked",
			"write-ahead log per payment", "tables and indexes per payment",
		} {
			f := figureOf(t, b, name+mode)
			require.NotNil(t, f.Floor, f.Name)
			require.GreaterOrEqual(t, f.Value, *f.Floor, f.Name)
		}
		figureOf(t, b, "live heap per payment"+mode)
	}
}

func requireDuplicates(t *testing.T, b *bench.Report) {
	t.Helper()
	require.InDelta(t, 0.5, ratioOf(t, b, "a duplicate, process cache ÷ a bare handler that verifies").Goal, 0)
	require.InDelta(t, 0.8, ratioOf(t, b, "a duplicate, no cache ÷ a bare handler that verifies and reads").Goal, 0)
	require.InDelta(t, 500, figureOf(t, b, "duplicates acknowledged").Value, 0)
	for _, name := range []string{"live heap before them", "live heap after them", "peak memory of the process"} {
		require.Positive(t, figureOf(t, b, name).Value, name)
	}
}

func resultOf(t *testing.T, b *bench.Report, name string) bench.Result {
	t.Helper()
	for _, r := range b.Results {
		if r.Name == name {
			return r
		}
	}
	require.Fail(t, "no result", name)
	return bench.Result{}
}

func ratioOf(t *testing.T, b *bench.Report, name string) bench.Ratio {
	t.Helper()
	for _, r := range b.Ratios {
		if r.Name == name {
			return r
		}
	}
	require.Fail(t, "no ratio", name)
	return bench.Ratio{}
}

func figureOf(t *testing.T, b *bench.Report, name string) bench.Figure {
	t.Helper()
	for _, f := range b.Figures {
		if f.Name == name {
			return f
		}
	}
	require.Fail(t, "no figure", name)
	return bench.Figure{}
}

func TestBenchSaysWhatItDoesNotTake(t *testing.T) {
	t.Parallel()
	require.Contains(t, failure(t, "bench", "callbacks", "--n", "0"), "--n is 1 to 100000")
	require.Contains(t, failure(t, "bench", "callbacks", "--channel", "paypal"), "alipay, standard, stripe, wechatpay")
	require.Contains(t, failure(t, "bench", "all", "--concurrency", "65"), "--concurrency is 1 to 64")
	require.Contains(t, failure(t, "bench", "duplicates", "--seconds", "0"), "--seconds is 0.1 to 60")
	require.Contains(t, failure(t, "bench", "ledger", "--grow", "1", "--keep", "paylatch"), "begins with paylatch_bench_")
}
