// Package api is the HTTP face: callbacks from channels, the merchants' API, and what operators probe. It holds no business
// rule: it checks shapes, calls the packages below, and translates their answers.
package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/console"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/transfer"
)

// Config is what the API stands on.
type Config struct {
	Orders   *payment.Orders
	Entry    *payment.Entry
	Books    *payment.Books
	Accounts *tenant.Accounts
	// Acquiring closes orders at their channel; Prepay announces one there and waits for that, or its context's end.
	Acquiring *acquiring.Service
	Prepay    func(ctx context.Context, o acquiring.Ref) error
	// Transfers carries transfers out; AwaitTransfer waits for a flow's end, or its context's.
	Transfers     *transfer.Service
	AwaitTransfer func(ctx context.Context, t transfer.Transfer) error
	// Group commits single journals of concurrent callers together.
	Group *ledger.Group
	// API is the pool under row-level security, Engine the one that sees all tenants.
	API, Engine *pgxpool.Pool
	// DatabaseReady and EngineReady answer the readiness probe.
	DatabaseReady, EngineReady func(context.Context) error
	// WorkflowURL gives the Temporal UI's page of a workflow id; empty without a UI.
	WorkflowURL func(workflowID string) string
	Log         *zap.Logger
}

type server struct {
	Config
	log *zap.Logger
}

// Limits of a request.
const (
	maxBody        = 1 << 20
	maxHeader      = 64 << 10
	requestTimeout = 10 * time.Second
)

// Handler gives all routes.
func Handler(cfg Config) http.Handler {
	s := &server{cfg, cfg.Log}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.Use(s.observe, s.recover)
	r.NoRoute(func(c *gin.Context) {
		s.fail(c, newProblem(http.StatusNotFound, "route_not_found", "there is no such route; see docs and api/openapi.yaml"))
	})
	r.NoMethod(func(c *gin.Context) {
		s.fail(c, newProblem(http.StatusMethodNotAllowed, "method_not_allowed", "this route does not take "+c.Request.Method))
	})

	r.GET("/healthz", s.health)
	r.GET("/readyz", s.ready)
	r.GET("/readyz/callbacks", s.readyForCallbacks)
	r.GET("/metrics", gin.WrapH(promhttp.Handler()))
	for _, path := range console.Files() {
		r.GET(path, gin.WrapH(console.Handler()))
	}

	r.POST("/callbacks/:channel/:account", s.callback)

	v1 := r.Group("/v1", s.bound, s.authenticate)
	v1.POST("/payments", s.createPayment)
	v1.GET("/payments", s.listPayments)
	v1.GET("/payments/:out_trade_no", s.getPayment)
	v1.POST("/payments/:out_trade_no/close", s.closePayment)
	v1.POST("/payments/:out_trade_no/ship", s.movePayment(cfg.Orders.Ship))
	v1.POST("/payments/:out_trade_no/complete", s.movePayment(cfg.Orders.Complete))
	v1.GET("/events", s.listEvents)
	v1.GET("/events/:id", s.getEvent)
	v1.POST("/events/:id/replay", s.replayEvent)
	v1.POST("/events/:id/suspense", s.exitEvent(cfg.Books.BookToSuspense))
	v1.POST("/events/:id/reject", s.exitEvent(cfg.Books.Reject))
	v1.POST("/accounts", s.createAccount)
	v1.GET("/accounts/:code", s.getAccount)
	v1.GET("/accounts/:code/entries", s.listEntries)
	v1.POST("/journals", s.postJournals)
	v1.POST("/transfers", s.createTransfer)
	v1.GET("/transfers/:id", s.getTransfer)
	v1.PUT("/stock/:sku", s.putStock)
	v1.GET("/stock/:sku", s.getStock)
	return r
}

// Serve listens until ctx is done, then lets running requests end.
func Serve(ctx context.Context, address string, h http.Handler, ready func(address string)) error {
	listener, err := Listen(ctx, address)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		stopped <- srv.Shutdown(grace)
	}()
	ready(listener.Addr().String())
	if err := srv.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return <-stopped
}

const requestIDKey = "request_id"

func requestID(c *gin.Context) string { return c.GetString(requestIDKey) }

// observe names the request and logs its end: method, route and status, never a body, a header or a query.
func (s *server) observe(c *gin.Context) {
	id := make([]byte, 8)
	rand.Read(id)
	c.Set(requestIDKey, hex.EncodeToString(id))
	c.Header("X-Request-Id", requestID(c))
	c.Header("X-Content-Type-Options", "nosniff")
	c.Header("Cache-Control", "no-store")
	begin := time.Now()
	c.Next()
	s.log.Debug("request", zap.String("request_id", requestID(c)), zap.String("method", c.Request.Method),
		zap.String("route", c.FullPath()), zap.Int("status", c.Writer.Status()), zap.Duration("took", time.Since(begin)))
}

// recover answers a panic with a problem and keeps the process alive. An answer that could not be written as JSON is a
// problem too; gin alone would leave it a 200 with nothing in it.
func (s *server) recover(c *gin.Context) {
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("panic in a handler", zap.String("request_id", requestID(c)), zap.String("route", c.FullPath()),
				zap.Any("panic", fault), zap.ByteString("stack", debug.Stack()))
			s.fail(c, newProblem(http.StatusInternalServerError, "internal", "something failed on our side"))
		}
	}()
	c.Next()
	if err := c.Errors.Last(); err != nil && !c.Writer.Written() {
		s.fail(c, err)
	}
}

// bound gives a merchant's request its time.
func (s *server) bound(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), requestTimeout)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}
