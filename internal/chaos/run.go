package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/verify"
)

// Options say what is played and where.
type Options struct {
	Seed   uint64
	Length time.Duration // of the load
	Rate   float64       // scenes per second
	// Dir holds data and logs. It must exist, and the user that PostgreSQL runs as must be able to pass through it.
	Dir string
	// Keep says that data and record stay there whatever comes out.
	Keep bool
	// Program is paylatch itself, for the API and worker processes.
	Program string
	// RedriveAfter is the processes' own flag of that name.
	RedriveAfter time.Duration
	// Drain bounds how long the senders insist after the load, Quiet how long is waited until nothing moves any more.
	Drain, Quiet time.Duration
	Progress     io.Writer
}

const progressEvery = 10 * time.Second

// recordName is the file in the directory that keeps the record.
const recordName = "record.json"

// Run plays the load and the plan, waits for quiet and compares. An error says that the run could not be played; what was
// found is in the outcome. The data in o.Dir goes when nothing was found, and stays otherwise.
func Run(ctx context.Context, o Options) (outcome *Outcome, err error) {
	begin := time.Now()
	tell := teller(o.Progress)
	record := NewRecord()
	tell("starting PostgreSQL, Temporal, %d APIs and %d workers in %s", API.instances(), Worker.instances(), o.Dir)
	h, err := openHouse(ctx, o, record, tell)
	defer func() {
		keep := o.Keep || ctx.Err() == nil && (err != nil || !outcome.Passed())
		err = errors.Join(err, h.close(keep))
	}()
	if err != nil {
		return nil, err
	}
	l := &load{seed: o.Seed, rate: o.Rate, record: record, caller: newCaller(h.bases), scenes: scenes(), sign: signStandard}
	defer l.caller.close()
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	plan := NewPlan(o.Seed, o.Length)
	strike := &striker{servers: h.servers, tell: tell, spans: map[target][]span{}}
	outcome = &Outcome{Seed: o.Seed, Length: o.Length.String(), Rate: o.Rate, Faults: count(plan), Invariants: len(verify.Invariants())}
	spoiled, behave := context.WithCancel(ctx)
	defer behave()
	var spoiling sync.WaitGroup
	spoiling.Go(func() { h.acquirers.misbehave(spoiled, o.Seed) })
	err = l.under(ctx, o, strike, plan, tell)
	behave()
	spoiling.Wait()
	if err != nil {
		return nil, err
	}
	if err := h.ready(ctx); err != nil {
		return nil, err
	}
	if err := awaitQuiet(ctx, h.engine, h.temporal.Address(), o.Quiet, l, tell); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		outcome.Findings = append(outcome.Findings, Finding{Unsettled, err.Error()})
	}
	tell("comparing")
	if err := outcome.compare(ctx, h, l, strike); err != nil {
		return nil, err
	}
	outcome.EndedByThemselves = h.endsByItself()
	outcome.Took = time.Since(begin).Round(time.Second).String()
	if o.Keep || !outcome.Passed() {
		return outcome, os.WriteFile(filepath.Join(o.Dir, recordName), toJSON(record), 0o600)
	}
	return outcome, nil
}

func teller(w io.Writer) func(format string, args ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "  "+format+"\n", args...)
	}
}

// open gives each merchant its accounts, its funds and its shelf, by the API like everything else.
func (l *load) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	const onHand = 1_000_000
	for _, m := range l.record.Merchants {
		p := &player{load: l, merchant: m}
		made := func(a answer) bool { return a.status == http.StatusOK || a.status == http.StatusCreated }
		done := p.insistOn(ctx, http.MethodPut, "/v1/stock/"+sku, nil, map[string]any{"on_hand": onHand}, made) &&
			p.insistOn(ctx, http.MethodPost, "/v1/accounts", nil, map[string]any{"code": bank, "currency": currency, "allow_negative": true}, made)
		l.record.OnHand[m.Tenant] = onHand
		for i := range wallets {
			done = done && p.insistOn(ctx, http.MethodPost, "/v1/accounts", nil, map[string]any{"code": wallet(i), "currency": currency}, made)
			j := &Posting{Tenant: m.Tenant, Key: "fund-" + wallet(i), From: bank, To: wallet(i), Amount: funds, Currency: currency}
			l.record.Postings = append(l.record.Postings, j)
			p.post(ctx, j)
			done = done && j.Done
		}
		if !done || len(l.record.Strange) > 0 {
			return fmt.Errorf("merchant %s could not be set up: %v", m.Tenant, l.record.Strange)
		}
	}
	return nil
}

// under plays load and plan at the same time, and returns when the plan is over and every sender has ended.
func (l *load) under(ctx context.Context, o Options, s *striker, plan []Round, tell func(string, ...any)) error {
	begin := time.Now()
	playing, cancel := context.WithDeadline(ctx, begin.Add(o.Length+o.Drain))
	defer cancel()
	s.volley = func() { l.begin(playing, volleySize) }
	struck := make(chan error, 1)
	l.until = begin.Add(o.Length)
	go func() { struck <- s.run(ctx, plan, begin) }()
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		l.run(playing)
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var failed error
	for waiting := 2; waiting > 0; {
		select {
		case failed = <-struck:
			waiting--
			struck = nil
			if failed != nil {
				cancel() // a server that does not come back ends the run
			}
		case <-loaded:
			waiting--
			loaded = nil
		case <-tick.C:
			orders, acked, transfers := l.record.counts()
			tell("%6.1fs  %d orders, %d callbacks acknowledged, %d transfers and journals; %d scenes under way",
				time.Since(begin).Seconds(), orders, acked, transfers, l.underWay())
		}
	}
	return errors.Join(failed, ctx.Err())
}
