package main

import (
	"context"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
)

type workerCommand struct {
	engineFlags
	channelFlags
	logFlags
	planFlags
	Queues string `help:"Task queues to serve, of payments, ledger, participants and channel-NAME; all without." env:"PAYLATCH_QUEUES" placeholder:"LIST"`
	Ops    string `help:"Address for /healthz and /metrics of this worker; none without." env:"PAYLATCH_OPS" placeholder:"ADDRESS"`
}

// Validate implements kong's check of flags.
func (c *workerCommand) Validate() error { return c.planFlags.valid() }

func (c *workerCommand) Run(ctx context.Context) error {
	log := c.logger()
	queues, err := worker.ParseQueues(c.Queues)
	if err != nil {
		return err
	}
	dev, err := c.dev()
	if err != nil {
		return err
	}
	db, box, err := c.openWithKey()
	if err != nil {
		return err
	}
	options, err := engine.Options(dev.Temporal, log)
	if err != nil {
		return err
	}
	h, err := newHouse(db, houseConfig{box, options, c.plan(), c.PublicURL, log, ""})
	if err != nil {
		return err
	}
	defer h.close()

	group, ctx := errgroup.WithContext(ctx)
	if c.Ops != "" {
		group.Go(func() error { return api.Serve(ctx, c.Ops, opsHandler(), log, func(string) {}) })
	}
	group.Go(func() error { return h.work(ctx, queues, c.Connections) })
	return group.Wait()
}

// work waits for the database, then serves the queues and looks after overdue rows until ctx is done.
func (h *house) work(ctx context.Context, queues []string, connections int) error {
	if err := await(ctx, h.log, "the database", func(ctx context.Context) error { return database.Ready(ctx, h.engine) }); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if slices.Contains(queues, workflows.PaymentsQueue) {
		group.Go(func() error {
			worker.Redrive(ctx, h.log, h.entry, h.transfers, h.acquiring, h.shares, h.refunds, idempotency.Purger{Pool: h.engine})
			return nil
		})
	}
	group.Go(func() error { return h.poll(ctx, queues, connections) })
	return group.Wait()
}

// poll waits for Temporal, then serves the queues.
func (h *house) poll(ctx context.Context, queues []string, connections int) error {
	if err := await(ctx, h.log, "Temporal", func(ctx context.Context) error {
		return engine.Register(ctx, h.temporal, h.namespace, workflows.SearchAttributes())
	}); err != nil {
		return err
	}
	h.log.Info("working", zap.Strings("queues", queues))
	return worker.Run(ctx, worker.Config{
		Client: h.temporal, Queues: queues, Log: h.log, DatabaseConnections: connections,
		Serves: worker.Activities{Books: h.books, Transfers: h.transfers, Acquiring: h.acquiring, Shares: h.shares, Refunds: h.refunds, Log: h.log},
	})
}

func opsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("GET /metrics", promhttp.Handler())
	return mux
}
