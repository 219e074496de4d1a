package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/sealed"
)

type serveCommand struct {
	engineFlags
	channelFlags
	logFlags
	planFlags
	HTTP           string `help:"Address to listen on." name:"http" default:"127.0.0.1:8080" env:"PAYLATCH_HTTP" placeholder:"ADDRESS"`
	APIDatabaseURL string `help:"PostgreSQL as the role paylatch_api (row-level security)." name:"api-database-url" env:"PAYLATCH_API_DATABASE_URL" placeholder:"URL"`
	callerFlags
	RedisURL   string `help:"Redis in which processes share what is final: redis://user:password@host:port/0. It is never needed." name:"redis-url" env:"PAYLATCH_REDIS_URL" placeholder:"URL"`
	TemporalUI string `help:"Base URL of the Temporal UI, for links." name:"temporal-ui" env:"PAYLATCH_TEMPORAL_UI" placeholder:"URL"`
}

// Validate is the command's own: of two embedded ones neither would be called.
func (c *serveCommand) Validate() error {
	return errors.Join(c.planFlags.valid(), c.callerFlags.valid())
}

func (c *serveCommand) Run(ctx context.Context) error {
	log := c.logger()
	dev, err := c.dev()
	if err != nil {
		return err
	}
	engineDB, box, err := c.openWithKey()
	if err != nil {
		return err
	}
	apiURL := c.APIDatabaseURL
	if apiURL == "" && c.Data != "" {
		apiURL = dev.APIDatabaseURL
	}
	if apiURL == "" {
		return errors.New("no database for the merchants' API: set PAYLATCH_API_DATABASE_URL (the role paylatch_api), or --data to use a running paylatch dev")
	}
	apiDB, err := database.Open(apiURL, c.Connections)
	if err != nil {
		return err
	}
	defer apiDB.Close()
	options, err := engine.Options(dev.Temporal, log)
	if err != nil {
		return err
	}
	h, err := newHouse(engineDB, houseConfig{box, options, c.plan(), c.PublicURL, log, c.RedisURL})
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.refuseUnsafe(ctx, apiDB); err != nil {
		return err
	}
	var watching sync.WaitGroup
	watch, stop := context.WithCancel(ctx)
	watching.Go(func() { h.accounts.Watch(watch, log) })
	defer watching.Wait()
	defer stop()
	return api.Serve(ctx, c.HTTP, h.handler(apiDB, firstOf(c.TemporalUI, dev.TemporalUI), c.callerFlags), log, func(address string) {
		log.Info("serving", zap.String("address", address))
	})
}

// refuseUnsafe ends a start on a database that would acknowledge what it could lose, with a master key that opens no channel
// account, or with a login of the API that would see all tenants. A database that is away is no reason: the readiness probe tells, and callbacks are answered 5xx until it
// is back.
func (h *house) refuseUnsafe(ctx context.Context, apiDB *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := database.Ready(ctx, h.engine)
	if err == nil {
		err = h.accounts.CheckKey(ctx)
	}
	if err == nil {
		err = database.Isolated(ctx, apiDB)
	}
	if errors.Is(err, database.ErrNotDurable) || errors.Is(err, database.ErrOldSchema) || errors.Is(err, sealed.ErrSealed) || errors.Is(err, database.ErrNotIsolated) {
		return err
	}
	if err != nil {
		h.log.Warn("the database does not answer yet", zap.Error(err))
	}
	return nil
}

// callerFlags say what callers of the merchants' API may expect.
type callerFlags struct {
	RateLimit      float64       `help:"Calls a second that one API key may make of this process, and 20 times that all keys of a tenant; 0 does not limit." default:"200" env:"PAYLATCH_RATE_LIMIT"`
	RateBurst      int           `help:"Calls that it may make at once." default:"400" env:"PAYLATCH_RATE_BURST"`
	IdempotencyTTL time.Duration `help:"How long the answer to a request with an idempotency key is kept; at least 1m." name:"idempotency-ttl" default:"24h" env:"PAYLATCH_IDEMPOTENCY_TTL"`
}

// valid refuses what no caller could expect.
func (f callerFlags) valid() error {
	if f.IdempotencyTTL < idempotency.MinTTL {
		return fmt.Errorf("--idempotency-ttl is at least %s", idempotency.MinTTL)
	}
	if f.RateLimit < 0 || f.RateLimit > 0 && f.RateBurst < 1 {
		return errors.New("--rate-limit is 0 or above, and --rate-burst at least 1")
	}
	return nil
}

func (h *house) handler(apiDB *pgxpool.Pool, temporalUI string, callers callerFlags) http.Handler {
	return api.Handler(api.Config{
		Orders:         payment.NewOrders(apiDB, h.accounts.Asks),
		Entry:          h.entry,
		Books:          h.books,
		Accounts:       h.accounts,
		Acquiring:      h.acquiring,
		Shares:         h.shares,
		Refunds:        h.refunds,
		Prepay:         h.starter.Prepay,
		Transfers:      h.transfers,
		AwaitTransfer:  h.starter.AwaitTransfer,
		Group:          h.group,
		API:            apiDB,
		Engine:         h.engine,
		RateLimit:      api.RateLimit{PerSecond: callers.RateLimit, Burst: callers.RateBurst},
		IdempotencyTTL: callers.IdempotencyTTL,
		Answers:        h.answers(),
		DatabaseReady: func(ctx context.Context) error {
			return errors.Join(database.Ready(ctx, h.engine), isolated(ctx, apiDB))
		},
		EngineReady: func(ctx context.Context) error { return engine.Healthy(ctx, h.temporal) },
		WorkflowURL: func(id string) string { return engine.WorkflowURL(temporalUI, h.namespace, id) },
		Log:         h.log,
	})
}

// answers is where kept answers are remembered besides the database: in Redis, if there is one.
func (h *house) answers() cache.Cache {
	if h.redis == nil {
		return nil
	}
	return h.redis
}

func isolated(ctx context.Context, apiDB *pgxpool.Pool) error {
	if err := database.Isolated(ctx, apiDB); err != nil {
		return fmt.Errorf("the role of the API: %w", err)
	}
	return nil
}
