// Package bench measures what paylatch does beside the floor it stands on: the same statements on the same schema and the
// same server, in the same run. Results are rates of one machine; what is claimed are their ratios.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Result is one measured phase.
type Result struct {
	Name string `json:"name"`
	// PerSecond is how many were done in a second.
	PerSecond float64 `json:"per_second"`
	// P50 and P99 are latencies of one call, in milliseconds; 0 where calls were not timed.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// Ratio compares two results of one run.
type Ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Goal is what docs/performance.md asks for; 0 for a ratio that is only told.
	Goal float64 `json:"goal,omitempty"`
}

// Report is a whole run.
type Report struct {
	Results []Result `json:"results"`
	Ratios  []Ratio  `json:"ratios"`
}

func (r *Report) add(result Result, progress io.Writer) Result {
	r.Results = append(r.Results, result)
	fmt.Fprintf(progress, "  %-46s %9.0f/s   p50 %7.2f ms   p99 %7.2f ms\n", result.Name, result.PerSecond, result.P50, result.P99)
	return result
}

func (r *Report) ratio(name string, of, to Result, goal float64) {
	if to.PerSecond > 0 {
		r.Ratios = append(r.Ratios, Ratio{name, of.PerSecond / to.PerSecond, goal})
	}
}

// Print writes the ratios.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintln(out)
	for _, ratio := range r.Ratios {
		goal := ""
		if ratio.Goal > 0 {
			goal = fmt.Sprintf("   goal %.2f", ratio.Goal)
		}
		fmt.Fprintf(out, "  %-62s %6.2f%s\n", ratio.Name, ratio.Value, goal)
	}
}

// analyze lets the planner know the tables, as autovacuum does a minute later: a phase must not be measured with the plans of
// empty tables.
func analyze(ctx context.Context, ownerURL string) error {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ANALYZE")
	return errors.Join(err, conn.Close(ctx))
}

// measure runs do by a number of callers for a time, after a short warm-up that does not count. do is given a number of its
// own and returns how many it has done. The first error ends the phase.
func measure(ctx context.Context, name string, callers int, length time.Duration, do func(ctx context.Context, n int64) (int, error)) (Result, error) {
	var number, done atomic.Int64
	var mu sync.Mutex
	var latencies []time.Duration
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warm := time.Now().Add(length / 8)
	end := warm.Add(length)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			var mine []time.Duration
			for ctx.Err() == nil {
				begin := time.Now()
				if begin.After(end) {
					break
				}
				n, err := do(ctx, number.Add(1))
				if err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
					cancel()
					return
				}
				if begin.After(warm) {
					done.Add(int64(n))
					mine = append(mine, time.Since(begin))
				}
			}
			mu.Lock()
			latencies = append(latencies, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	if failed != nil {
		return Result{}, fmt.Errorf("%s: %w", name, failed)
	}
	slices.Sort(latencies)
	at := func(q float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	return Result{name, float64(done.Load()) / length.Seconds(), at(0.5), at(0.99)}, nil
}
