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
	// PerSecond is how many were done in a second; the median, where it was measured in turns.
	PerSecond float64 `json:"per_second"`
	// Turns are the rates of the turns, from the slowest on.
	Turns []float64 `json:"turns,omitempty"`
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
	spread := ""
	if n := len(result.Turns); n > 1 {
		spread = fmt.Sprintf("   %d turns of %.0f to %.0f/s", n, result.Turns[0], result.Turns[n-1])
	}
	fmt.Fprintf(progress, "  %-46s %9.0f/s   p50 %7.2f ms   p99 %7.2f ms%s\n", result.Name, result.PerSecond, result.P50, result.P99, spread)
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

// phase is one thing that is measured: done by a number of callers, each call given a number of its own, and telling how many
// it has done.
type phase struct {
	name    string
	callers int
	do      func(ctx context.Context, n int64) (int, error)
	// calls counts over all turns: what a call's number names must be new.
	calls atomic.Int64
}

// turns is how often phases that are compared take turns: an odd number, so that there is a median.
const turns = 5

// alternate measures phases in turns, so that what drifts on a machine (its caches, its files) meets all alike. The rate of a
// phase is the median of its turns: what disturbs one of them does not count.
func alternate(ctx context.Context, length time.Duration, phases ...*phase) ([]Result, error) {
	samples := make([]sample, len(phases))
	for range turns {
		for i, p := range phases {
			if err := samples[i].take(ctx, p, length); err != nil {
				return nil, err
			}
		}
	}
	results := make([]Result, len(phases))
	for i, p := range phases {
		results[i] = samples[i].result(p.name)
	}
	return results, nil
}

// measure measures one phase.
func measure(ctx context.Context, length time.Duration, p *phase) (Result, error) {
	var s sample
	err := s.take(ctx, p, length)
	return s.result(p.name), err
}

// sample is what was seen of a phase.
type sample struct {
	rates     []float64 // of each turn, per second
	latencies []time.Duration
}

// take runs a phase for a time, after a short warm-up that does not count. The first error ends it.
func (s *sample) take(ctx context.Context, p *phase, length time.Duration) error {
	var mu sync.Mutex
	var failed error
	var done int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warm := time.Now().Add(length / 8)
	end := warm.Add(length)
	var all sync.WaitGroup
	for range p.callers {
		all.Go(func() {
			var mine int64
			var latencies []time.Duration
			for ctx.Err() == nil {
				begin := time.Now()
				if begin.After(end) {
					break
				}
				n, err := p.do(ctx, p.calls.Add(1))
				if err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
					cancel()
					return
				}
				if begin.After(warm) {
					mine += int64(n)
					latencies = append(latencies, time.Since(begin))
				}
			}
			mu.Lock()
			done += mine
			s.latencies = append(s.latencies, latencies...)
			mu.Unlock()
		})
	}
	all.Wait()
	if failed != nil {
		return fmt.Errorf("%s: %w", p.name, failed)
	}
	s.rates = append(s.rates, float64(done)/length.Seconds())
	return nil
}

func (s *sample) result(name string) Result {
	slices.Sort(s.latencies)
	slices.Sort(s.rates)
	rate := 0.0
	if len(s.rates) > 0 {
		rate = s.rates[len(s.rates)/2]
	}
	at := func(q float64) float64 {
		if len(s.latencies) == 0 {
			return 0
		}
		return float64(s.latencies[int(q*float64(len(s.latencies)-1))].Microseconds()) / 1000
	}
	return Result{Name: name, PerSecond: rate, Turns: s.rates, P50: at(0.5), P99: at(0.99)}
}
