package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// CallbacksConfig is a run of the callbacks' benchmark.
type CallbacksConfig struct {
	House HouseConfig
	// N orders are paid, with API and worker in one process and once more apart, by so many senders at once.
	N, Callers int
	// Duplicates is how often each callback is sent again.
	Duplicates int
	Display    *Display
}

const (
	emptyWorkflow = "BenchEmpty"
	emptyActivity = "bench_empty"
)

// registerEmpty registers what a flow would cost whose one step did nothing, whatever its input.
func registerEmpty(w sdk.Registry) {
	w.RegisterWorkflowWithOptions(empty, workflow.RegisterOptions{Name: emptyWorkflow})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: emptyActivity})
}

func empty(ctx workflow.Context, _ workflows.PaymentInput) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: 3 * time.Second})
	return workflow.ExecuteLocalActivity(ctx, emptyActivity).Get(ctx, nil)
}

// emptied starts the empty flow wherever a payment's would be started: with the same id, policies, search attributes, summary
// and input.
type emptied struct{ client.Client }

func (e emptied) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	return e.Client.ExecuteWorkflow(ctx, o, emptyWorkflow, args...)
}

// Callbacks measures paid orders from the first byte of the callback to the credit, beside a flow of the same start that has
// one empty local activity, with the API and the worker in one process (eager start) and apart.
func Callbacks(ctx context.Context, c CallbacksConfig) (*Report, error) {
	h, err := openHouse(ctx, c.House)
	if err != nil {
		return nil, err
	}
	defer h.close()
	w := worker.New(h.polling, workflows.PaymentsQueue, connections, nil)
	worker.Register(w, workflows.PaymentsQueue, worker.Activities{Books: h.books, Log: h.Log})
	registerEmpty(w)
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	defer w.Stop()

	report := &Report{Benchmark: "callbacks", Channel: c.House.Reporter.Name()}
	for _, mode := range []struct {
		name    string
		starter client.Client
	}{{"in one process", h.polling}, {"apart", h.other}} {
		m := callbacksMode{CallbacksConfig: c, house: h, name: mode.name, starter: mode.starter}
		if err := m.measure(ctx, report); err != nil {
			return nil, fmt.Errorf("%s: %w", mode.name, err)
		}
	}
	return report, nil
}

// callbacksMode is the measurement with one client that starts flows.
type callbacksMode struct {
	CallbacksConfig
	house   *house
	name    string
	starter client.Client
	sender  *sender
	floors  int // how many empty flows were started
}

func (m *callbacksMode) measure(ctx context.Context, report *Report) error {
	base, stop, err := m.house.serve(start.New(m.starter), cache.NewMemory(m.house.Remembered))
	if err != nil {
		return err
	}
	defer stop()
	if m.sender, err = newSender(base, m.Callers); err != nil {
		return err
	}
	defer m.sender.reset()
	run := fmt.Sprintf("%c%d", m.name[0], time.Now().UnixNano())
	warm := min(m.N, max(100, 4*m.Callers))
	orders, err := m.house.orders(ctx, run, warm+m.N)
	if err != nil {
		return err
	}
	// The first flows of a process pay for what the others share, and the planner does not know the tables yet.
	begin := time.Now()
	floor, paid := &tally{}, &tally{}
	if err := m.turn(ctx, floor, paid, orders[:warm], "warm-up"); err != nil {
		return err
	}
	if err := analyze(ctx, m.house.OwnerURL); err != nil {
		return err
	}
	report.WarmUps = append(report.WarmUps, WarmUp{m.name, warm, time.Since(begin).Seconds()})

	floor, paid = &tally{}, &tally{}
	heap := liveHeap()
	step := (m.N + turns - 1) / turns
	for chunk := range slices.Chunk(orders[warm:], step) {
		if err := m.turn(ctx, floor, paid, chunk, "callbacks"); err != nil {
			return err
		}
	}
	flows := report.add(floor.whole.result("a flow of one empty step, "+m.name, true), m.Display)
	report.add(paid.acked.result("callbacks accepted, "+m.name, false), m.Display)
	credited := report.add(paid.whole.result("payments credited, "+m.name, false), m.Display)
	report.ratio("credited payments ÷ flows of one empty step, "+m.name, credited, flows, 0.85)
	report.figure(Figure{Name: "live heap per payment, " + m.name, Value: float64(liveHeap()-heap) / float64(m.N), Unit: "bytes"})
	return m.costs(ctx, report, floor, paid)
}

// turn does a number of empty flows and as many payments.
func (m *callbacksMode) turn(ctx context.Context, floor, paid *tally, orders []callback, what string) error {
	starter := start.New(emptied{m.starter})
	names := make([]string, len(orders))
	for i := range names {
		m.floors++
		names[i] = fmt.Sprintf("empty-%s-%d", orders[i].number, m.floors)
	}
	err := floor.run(ctx, m, "empty flows, "+m.name, names, func(ctx context.Context, i int, acked func()) error {
		amount, currency := int64(100), "CNY"
		err := starter.Deliver(ctx, payment.Delivery{
			EventID: int64(i + 1), TenantID: tenantName, Channel: m.house.Reporter.Name(), Kind: channel.PaySuccess,
			OutTradeNo: names[i], Amount: &amount, Currency: &currency, OrderState: payment.Pending,
		})
		acked()
		return err
	})
	if err != nil {
		return fmt.Errorf("empty flows: %w", err)
	}
	m.sender.reset()
	if err := m.house.sign(ctx, orders); err != nil {
		return err
	}
	for i, o := range orders {
		names[i] = o.number
	}
	err = paid.run(ctx, m, what+", "+m.name, names, func(_ context.Context, i int, acked func()) error {
		for sent := range 1 + m.Duplicates {
			if err := m.sender.send(orders[i].request); err != nil {
				return err
			}
			if sent == 0 {
				acked()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.house.credited(ctx, names)
}

// credited holds the orders to the promise.
func (h *house) credited(ctx context.Context, numbers []string) error {
	var credited int
	err := h.owner.QueryRow(ctx, `
SELECT count(*) FROM channel_events
 WHERE tenant_id = $1 AND out_trade_no = ANY ($2) AND state = 'DONE' AND outcome = 'CREDITED'`, tenantName, numbers).Scan(&credited)
	if err == nil && credited != len(numbers) {
		err = fmt.Errorf("%d of %d orders were credited", credited, len(numbers))
	}
	return err
}
