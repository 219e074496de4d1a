package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

// DuplicatesConfig is a run of the duplicates' benchmark.
type DuplicatesConfig struct {
	House HouseConfig
	// Orders is how many credited orders are reported again and again, in turn.
	Orders  int
	Callers int
	// Length of one turn of a phase.
	Length time.Duration
	// Acks is how many duplicates are sent to see whether the memory stays flat.
	Acks    int
	Display *Display
}

// duplicates is a run of it.
type duplicates struct {
	DuplicatesConfig
	house     *house
	callbacks []callback
}

// Duplicates measures how fast the callback of an order that is credited is acknowledged again, beside a bare handler that
// verifies the same signature and answers, and beside one that makes an indexed read as well; and then, over many of them,
// whether the memory of the process stays as it is.
func Duplicates(ctx context.Context, c DuplicatesConfig) (*Report, error) {
	h, err := openHouse(ctx, c.House)
	if err != nil {
		return nil, err
	}
	defer h.close()
	d := &duplicates{DuplicatesConfig: c, house: h}
	acct, err := d.prepare(ctx)
	if err != nil {
		return nil, err
	}
	report := &Report{Benchmark: "duplicates", Channel: c.House.Reporter.Name()}

	verifies, reads := d.phase("a bare handler that verifies"), d.phase("a bare handler that verifies and reads")
	verifies.floor, reads.floor = true, true
	remembered, lookedUp := d.phase("a duplicate, process cache"), d.phase("a duplicate, no cache")
	for _, s := range []struct {
		phase *served
		begin func() (string, func(), error)
	}{
		{verifies, func() (string, func(), error) {
			return h.listen(bare(acct, func(context.Context, []byte) error { return nil }))
		}},
		{reads, func() (string, func(), error) {
			return h.listen(bare(acct, func(ctx context.Context, body []byte) error { return d.read(ctx, acct, body) }))
		}},
		{remembered, func() (string, func(), error) { return h.serve(nobody{}, cache.NewMemory(h.Remembered)) }},
		{lookedUp, func() (string, func(), error) { return h.serve(nobody{}, nil) }},
	} {
		base, stop, err := s.begin()
		if err != nil {
			return nil, err
		}
		defer stop()
		if s.phase.sender, err = newSender(base, c.Callers); err != nil {
			return nil, err
		}
		defer s.phase.sender.reset()
	}
	if err := d.warm(ctx, report, verifies, reads, remembered, lookedUp); err != nil {
		return nil, err
	}
	results, err := alternate(ctx, c.Length, c.Display, &verifies.phase, &reads.phase, &remembered.phase, &lookedUp.phase)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		report.add(r, c.Display)
	}
	report.ratio("a duplicate, process cache ÷ a bare handler that verifies", results[2], results[0], 0.5)
	report.ratio("a duplicate, no cache ÷ a bare handler that verifies and reads", results[3], results[1], 0.8)
	for _, s := range []*served{remembered, lookedUp} {
		if err := d.trips(ctx, report, s); err != nil {
			return nil, err
		}
	}
	return report, d.flat(ctx, report, remembered)
}

// warm sends the callback of every order to every server: the first duplicate is what a cache learns from.
func (d *duplicates) warm(ctx context.Context, report *Report, all ...*served) error {
	begin := time.Now()
	if err := d.house.sign(ctx, d.callbacks); err != nil {
		return err
	}
	for _, s := range all {
		err := each(ctx, len(d.callbacks), d.Callers, func(_ context.Context, i int) error { return s.sender.send(d.callbacks[i].request) })
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	report.WarmUps = append(report.WarmUps, WarmUp{"duplicates", len(all) * len(d.callbacks), time.Since(begin).Seconds()})
	return nil
}

// trips counts what a duplicate asks of the database, beside the one read of the floor.
func (d *duplicates) trips(ctx context.Context, report *Report, s *served) error {
	before := d.house.atEntry.read()
	err := each(ctx, len(d.callbacks), d.Callers, func(_ context.Context, i int) error { return s.sender.send(d.callbacks[i].request) })
	if err != nil {
		return err
	}
	spent, n, floor := d.house.atEntry.read().minus(before), float64(len(d.callbacks)), 1.0
	report.figure(Figure{Name: "round trips to the database per duplicate, " + s.name, Value: float64(spent.roundTrips) / n, Floor: &floor})
	report.figure(Figure{Name: "database transactions per duplicate, " + s.name, Value: float64(spent.transactions) / n, Floor: &floor})
	return nil
}

// prepare credits the orders, without an engine.
func (d *duplicates) prepare(ctx context.Context) (acct tenant.Account, err error) {
	h := d.house
	found, err := h.accounts.Find(ctx, h.Reporter.Name(), h.accountName)
	if err != nil {
		return acct, err
	}
	if d.callbacks, err = h.orders(ctx, fmt.Sprintf("d%d", time.Now().UnixNano()), d.Orders); err != nil {
		return acct, err
	}
	if err := h.sign(ctx, d.callbacks); err != nil {
		return acct, err
	}
	bar := d.Display.Count("credit orders", d.Orders)
	defer bar.End()
	entry := h.entry(h.entryDB, nobody{})
	err = each(ctx, d.Orders, connections, func(ctx context.Context, i int) error {
		reported, err := entry.Report(ctx, found, d.callbacks[i].body, time.Now())
		if err != nil {
			return err
		}
		bar.Add(1)
		_, err = h.books.Apply(ctx, reported[0].EventID)
		return err
	})
	if err != nil {
		return acct, fmt.Errorf("credit the orders: %w", err)
	}
	return found, analyze(ctx, h.OwnerURL)
}

// Deliver implements [payment.Driver]: the benchmark books by itself.
func (nobody) Deliver(context.Context, payment.Delivery) error { return nil }

// served is a phase and where its requests go.
type served struct {
	phase
	sender *sender
}

func (d *duplicates) phase(name string) *served {
	s := &served{}
	s.name, s.callers = name, d.Callers
	s.before = func(ctx context.Context) error {
		s.sender.reset()
		return d.house.sign(ctx, d.callbacks)
	}
	s.do = func(_ context.Context, n int64) (int, error) {
		return 1, s.sender.send(d.callbacks[int(n)%len(d.callbacks)].request)
	}
	return s
}

// read is the one indexed read of the floor: in what state is the event of this body?
func (d *duplicates) read(ctx context.Context, acct tenant.Account, body []byte) error {
	events, err := channel.Read(acct.Account, body)
	if err != nil {
		return err
	}
	var state string
	return d.house.entryDB.QueryRow(ctx, "SELECT state FROM channel_events WHERE account_id = $1 AND event_key = $2",
		acct.ID, events[0].Key(acct.Channel.Name(), body)).Scan(&state)
}

// looks is how often the memory is looked at while duplicates are sent.
const looks = 10

// flat sends many duplicates and tells what the process holds on to after each part of them.
func (d *duplicates) flat(ctx context.Context, report *Report, s *served) error {
	bar := d.Display.Count("duplicates, memory", d.Acks)
	defer bar.End()
	part := (d.Acks + looks - 1) / looks
	held := make([]int64, 0, looks+1)
	resetPeak()
	for look := range looks + 1 {
		if look > 0 {
			if err := d.house.sign(ctx, d.callbacks); err != nil {
				return err
			}
			err := each(ctx, part, d.Callers, func(ctx context.Context, i int) error {
				_, err := s.do(ctx, int64(i))
				bar.Add(1)
				return err
			})
			if err != nil {
				return fmt.Errorf("duplicates: %w", err)
			}
		}
		held = append(held, liveHeap())
	}
	report.figure(Figure{Name: "duplicates acknowledged", Value: float64(looks * part)})
	report.figure(Figure{Name: "live heap before them", Value: float64(held[0]) / mib, Unit: "MiB"})
	report.figure(Figure{Name: "live heap after them", Value: float64(held[looks]) / mib, Unit: "MiB"})
	report.figure(Figure{Name: "live heap, growth over the last half of them", Value: float64(held[looks]-held[looks/2]) / float64((looks-looks/2)*part), Unit: "bytes per duplicate"})
	report.figure(Figure{Name: "peak memory of the process", Value: peakMemory(), Unit: "MiB"})
	return nil
}

// bare answers as a callback is answered, and does nothing but verify, and one thing more.
func bare(acct tenant.Account, more func(ctx context.Context, body []byte) error) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	ack := acct.Channel.Accepted()
	r.POST("/callbacks/:channel/:account", func(g *gin.Context) {
		body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, 1<<20))
		if err == nil {
			err = acct.Verify(channel.Notification{Header: g.Request.Header, Body: body, ReceivedAt: time.Now()})
		}
		if err == nil {
			err = more(g.Request.Context(), body)
		}
		if err != nil {
			g.Status(http.StatusBadRequest)
			return
		}
		g.Data(ack.Status, ack.ContentType, ack.Body)
	})
	return r
}
