package bench

import (
	"context"
	"time"
)

// tally is what turns of one kind of flow have shown: the empty one, or a payment's.
type tally struct {
	acked, whole measured
	spent        usage
	entry, books metered
	peak         float64
	processor    time.Duration
	numbers      []string // of the flows
}

// patience is how long nothing may arrive: longer than what the re-drive waits for.
const patience = 30 * time.Second

// run lets callers begin flows and waits until the last has arrived. do says when it is answered.
func (t *tally) run(ctx context.Context, m *callbacksMode, what string, numbers []string, do func(ctx context.Context, i int, acked func()) error) error {
	ids := make([]string, len(numbers))
	for i, number := range numbers {
		ids[i] = flowID(number)
	}
	h := m.house
	f := newFinish(ids)
	h.watcher.finish.Store(f)
	defer h.watcher.finish.Store(nil)
	bar := m.Display.Count(what, len(numbers))
	defer bar.End()
	before, err := h.usage(ctx)
	if err != nil {
		return err
	}
	entry, books := h.atEntry.read(), h.atBooks.read()
	resetPeak()
	processor := processorTime()
	sent, acked := make([]time.Time, len(numbers)), make([]time.Time, len(numbers))
	begin := time.Now()
	err = each(ctx, len(numbers), m.Callers, func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		err := do(ctx, i, func() { acked[i] = time.Now() })
		bar.Add(1)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.wait(ctx, patience); err != nil {
		return err
	}
	t.processor += processorTime() - processor
	t.peak = max(t.peak, peakMemory())
	t.entry, t.books = t.entry.plus(h.atEntry.read().minus(entry)), t.books.plus(h.atBooks.read().minus(books))
	after, err := h.usage(ctx)
	if err != nil {
		return err
	}
	t.spent = t.spent.plus(after.minus(before))
	t.numbers = append(t.numbers, numbers...)
	t.acked.turn(begin, sent, acked)
	t.whole.turn(begin, sent, f.at)
	return nil
}

// turn takes in when each was sent and when it came.
func (m *measured) turn(begin time.Time, sent, came []time.Time) {
	last := begin
	var over Series
	for i, at := range came {
		m.latencies.Add(at.Sub(sent[i]))
		over.Add(at.Sub(begin), 1)
		if at.After(last) {
			last = at
		}
	}
	m.over.Append(&over)
	m.rates = append(m.rates, float64(len(came))/last.Sub(begin).Seconds())
}
