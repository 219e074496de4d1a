package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// TransfersConfig is what a run of the transfers' benchmark works on: a database of its own, migrated, with the tenant
// "bench", and a namespace of its own.
type TransfersConfig struct {
	Pool     *pgxpool.Pool
	OwnerURL string
	// Worker is the client that the worker polls with; Other is another client of the same namespace, which starts flows
	// as a process of its own would, without the eager start.
	Worker, Other client.Client
	Length        time.Duration
	Callers       int
	Display       *Display
}

// Transfers measures the TCC flow beside a flow that has as many local activities and does nothing, with the API and the
// worker in one process (eager start) and apart.
func Transfers(ctx context.Context, c TransfersConfig) (*Report, error) {
	box, err := sealed.New(sealed.NewKey())
	if err != nil {
		return nil, err
	}
	log := zap.NewNop()
	service := transfer.NewService(c.Pool, box, nobody{}, log, nil)
	w := worker.New(c.Worker, workflows.PaymentsQueue, c.Callers, nil)
	worker.Register(w, workflows.PaymentsQueue, worker.Activities{Books: payment.NewBooks(c.Pool, log), Transfers: service, Log: log})
	registerEmpty(w)
	if err := w.Start(); err != nil {
		return nil, err
	}
	defer w.Stop()
	if err := c.fund(ctx); err != nil {
		return nil, err
	}

	if err := c.seed(ctx, service); err != nil {
		return nil, err
	}
	report := &Report{Benchmark: "transfers"}
	// Before a client's calls go at once it has learned what the server can do.
	for _, engine := range []client.Client{c.Worker, c.Other} {
		if _, err := engine.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			return nil, fmt.Errorf("connect to the engine: %w", err)
		}
	}
	for _, mode := range []struct {
		name   string
		client client.Client
	}{{"in one process", c.Worker}, {"apart", c.Other}} {
		starter := start.New(mode.client)
		service := transfer.NewService(c.Pool, box, patient{starter}, log, nil)
		results, err := alternate(ctx, c.Length, c.Display, &phase{name: "a flow of one empty step, " + mode.name, floor: true, callers: c.Callers, do: func(ctx context.Context, n int64) (int, error) {
			run, err := mode.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
				ID: fmt.Sprintf("floor/%s/%d", mode.name, n), TaskQueue: workflows.PaymentsQueue, EnableEagerStart: true,
				WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			}, emptyWorkflow)
			if err != nil {
				return 0, err
			}
			return 1, run.Get(ctx, nil)
		}}, &phase{name: "a transfer (TCC), " + mode.name, callers: c.Callers, do: func(ctx context.Context, n int64) (int, error) {
			t, _, err := service.Create(ctx, between(mode.name[:2], n, transfer.TCC))
			if err != nil {
				return 0, err
			}
			return 1, starter.AwaitTransfer(ctx, t)
		}})
		if err != nil {
			return nil, err
		}
		floor, tcc := report.add(results[0], c.Display), report.add(results[1], c.Display)
		report.ratio("a transfer (TCC) ÷ a flow of one empty step, "+mode.name, tcc, floor, 0.8)
	}
	direct := transfer.NewService(c.Pool, box, nil, log, nil)
	result, err := measure(ctx, c.Length, c.Display, &phase{name: "a transfer (direct)", callers: c.Callers, do: func(ctx context.Context, n int64) (int, error) {
		_, _, err := direct.Create(ctx, between("d", n, transfer.Direct))
		return 1, err
	}})
	if err != nil {
		return nil, err
	}
	report.add(result, c.Display)
	return report, nil
}

// patient starts flows without the deadline that a request has: a start that comes too late would be left to the re-drive,
// which does not run here.
type patient struct{ transfer.Driver }

func (p patient) StartTransfer(ctx context.Context, t transfer.Transfer, resume bool) (string, error) {
	return p.Driver.StartTransfer(context.WithoutCancel(ctx), t, resume)
}

// seed puts some transfers into the tables and lets the planner know them.
func (c TransfersConfig) seed(ctx context.Context, service *transfer.Service) error {
	for n := range int64(300) {
		t, _, err := service.Create(ctx, between("seed", n, transfer.TCC))
		if err != nil {
			return err
		}
		if _, err := service.Try(ctx, t.ID); err != nil {
			return err
		}
		if _, err := service.Settle(ctx, t.ID, ""); err != nil {
			return err
		}
	}
	return analyze(ctx, c.OwnerURL)
}

// between is the n-th transfer, from one of many accounts to another.
func between(run string, n int64, mode transfer.Mode) transfer.Request {
	return transfer.Request{TenantID: tenantName, IdempotencyKey: run + strconv.FormatInt(n, 10), Mode: mode, Legs: []transfer.Leg{
		{Type: transfer.LedgerLeg, Account: fmt.Sprintf("a%d", 2*n%spreadOver), Amount: -1, Currency: "CNY"},
		{Type: transfer.LedgerLeg, Account: fmt.Sprintf("a%d", (2*n+1)%spreadOver), Amount: 1, Currency: "CNY"},
	}}
}

// nobody starts nothing: the seed plays its flows itself.
type nobody struct{}

func (nobody) StartTransfer(context.Context, transfer.Transfer, bool) (string, error) { return "", nil }

// fund gives every account enough for a long run.
func (c TransfersConfig) fund(ctx context.Context) error {
	return database.InTx(ctx, c.Pool, func(tx pgx.Tx) error {
		lines := []ledger.Line{{Code: "bank", Currency: "CNY", Amount: -spreadOver * 1_000_000, AllowNegative: true}}
		for i := range spreadOver {
			lines = append(lines, ledger.Line{Code: fmt.Sprintf("a%d", i), Currency: "CNY", Amount: 1_000_000})
		}
		_, _, err := ledger.Post(ctx, tx, ledger.Journal{TenantID: tenantName, Key: "fund", Kind: "posting", Lines: lines})
		return err
	})
}
