package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// phase is one thing that is measured: done by a number of callers, each call given a number of its own, and telling how many
// it has done.
type phase struct {
	name    string
	floor   bool
	callers int
	do      func(ctx context.Context, n int64) (int, error)
	// before makes ready for a turn, where that is not to be measured.
	before func(ctx context.Context) error
	// calls counts over all turns: what a call's number names must be new.
	calls atomic.Int64
}

// turns is how often phases that are compared take turns: an odd number, so that there is a median.
const turns = 5

// alternate measures phases in turns, so that what drifts on a machine (its caches, its files) meets all alike. The rate of a
// phase is the median of its turns: what disturbs one of them does not count.
func alternate(ctx context.Context, length time.Duration, display *Display, phases ...*phase) ([]Result, error) {
	seen := make([]measured, len(phases))
	for range turns {
		for i, p := range phases {
			if err := seen[i].take(ctx, p, length, display); err != nil {
				return nil, err
			}
		}
	}
	results := make([]Result, len(phases))
	for i, p := range phases {
		results[i] = seen[i].result(p.name, p.floor)
	}
	return results, nil
}

// measure measures one phase.
func measure(ctx context.Context, length time.Duration, display *Display, p *phase) (Result, error) {
	var m measured
	err := m.take(ctx, p, length, display)
	return m.result(p.name, p.floor), err
}

// measured is what was seen of one thing in its turns.
type measured struct {
	rates     []float64 // of each turn, per second
	latencies Histogram
	over      Series
}

// take runs a phase for a time, after a short warm-up that does not count. The first error ends it.
func (m *measured) take(ctx context.Context, p *phase, length time.Duration, display *Display) error {
	if p.before != nil {
		if err := p.before(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	var mu sync.Mutex
	var failed error
	var done int64
	var over Series
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bar := display.Time(p.name, length+length/8)
	defer bar.End()
	warm := time.Now().Add(length / 8)
	end := warm.Add(length)
	var all sync.WaitGroup
	for range p.callers {
		all.Go(func() {
			var mine int64
			var mineOver Series
			latencies := &Histogram{}
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
				bar.Add(int64(n))
				if begin.After(warm) {
					mine += int64(n)
					latencies.Add(time.Since(begin))
					mineOver.Add(begin.Sub(warm), int64(n))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			done += mine
			m.latencies.Merge(latencies)
			over.Merge(&mineOver)
		})
	}
	all.Wait()
	if failed != nil {
		return fmt.Errorf("%s: %w", p.name, failed)
	}
	m.over.Append(&over)
	m.rates = append(m.rates, float64(done)/length.Seconds())
	return nil
}

func (m *measured) result(name string, floor bool) Result {
	rates := slices.Sorted(slices.Values(m.rates))
	r := Result{
		Name: name, Floor: floor, Turns: rates, rates: m.rates, latencies: &m.latencies, over: &m.over,
		P50: milliseconds(m.latencies.Quantile(0.5)), P95: milliseconds(m.latencies.Quantile(0.95)), P99: milliseconds(m.latencies.Quantile(0.99)),
	}
	if len(rates) > 0 {
		r.PerSecond = median(rates)
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
