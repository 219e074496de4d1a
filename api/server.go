// Package api is the HTTP face: callbacks from channels, the merchants' API, and what operators probe. It holds no business
// rule: it checks shapes, calls the packages below, and translates their answers.
package api

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	stdlog "log"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/apidocs"
	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/console"
	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
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
	// Shares divides payments.
	Shares *share.Service
	// Refunds pays back.
	Refunds *refund.Service
	// Transfers carries transfers out; AwaitTransfer waits for a flow's end, or its context's.
	Transfers     *transfer.Service
	AwaitTransfer func(ctx context.Context, t transfer.Transfer) error
	// Group commits single journals of concurrent callers together.
	Group *ledger.Group
	// API is the pool under row-level security, Engine the one that sees all tenants.
	API, Engine *pgxpool.Pool
	// DatabaseReady and EngineReady answer the readiness probe.
	DatabaseReady, EngineReady func(context.Context) error
	// IdempotencyTTL is how long the answer to a request with a key is kept; zero is the default.
	IdempotencyTTL time.Duration
	// Answers remembers answers that are kept; nil: only the database does.
	Answers cache.Cache
	// RateLimit bounds what one API key may ask of this process; zero does not.
	RateLimit RateLimit
	// WorkflowURL gives the Temporal UI's page of a workflow id; empty without a UI.
	WorkflowURL func(workflowID string) string
	Log         *zap.Logger
}

type server struct {
	Config
	log    *zap.Logger
	limits *limits
	// strangers keeps unknown API keys from costing queries.
	strangers *strangers
	keys      *idempotency.Store
}

// Limits of a request.
const (
	maxBody        = 1 << 20
	maxHeader      = 64 << 10
	requestTimeout = 10 * time.Second
)

// Handler gives all routes.
func Handler(cfg Config) http.Handler {
	s := &server{cfg, cfg.Log, newLimits(cfg.RateLimit), newStrangers(), idempotency.NewStore(cfg.API, cfg.IdempotencyTTL, cfg.Answers)}
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
	for _, path := range apidocs.Files() {
		r.GET(path, gin.WrapH(docs()))
	}

	r.POST("/callbacks/:channel/:account", s.callback)

	v1 := r.Group("/v1", s.bound, s.authenticate)
	for _, route := range s.merchantRoutes() {
		handle := route.handle
		if route.method == http.MethodPost {
			handle = s.idempotent(handle)
		}
		v1.Handle(route.method, route.path, s.require(route.scope), handle)
	}
	return r
}

//go:embed openapi.yaml
var openapi []byte

// docs makes the page of the description once, when the first server of the process is made.
var docs = sync.OnceValue(func() http.Handler { return apidocs.Handler(openapi) })

// route is a call of the merchants' API.
type route struct {
	method, path string
	// scope is what the caller's key must have.
	scope  tenant.Scope
	handle gin.HandlerFunc
}

func (s *server) merchantRoutes() []route {
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	return []route{
		{post, "/payments", tenant.Write, s.createPayment},
		{get, "/payments", tenant.Read, s.listPayments},
		{get, "/payments/:out_trade_no", tenant.Read, s.getPayment},
		{post, "/payments/:out_trade_no/close", tenant.Write, s.closePayment},
		{post, "/payments/:out_trade_no/ship", tenant.Write, s.movePayment(s.Orders.Ship)},
		{post, "/payments/:out_trade_no/complete", tenant.Write, s.movePayment(s.Orders.Complete)},
		{post, "/payments/:out_trade_no/shares", tenant.Write, s.createShare},
		{get, "/shares", tenant.Read, s.listShares},
		{get, "/shares/:out_order_no", tenant.Read, s.getShare},
		{post, "/shares/:out_order_no/retry", tenant.Write, s.retryShare},
		{post, "/shares/:out_order_no/collect", tenant.Write, s.collectShare},
		{post, "/payments/:out_trade_no/refunds", tenant.Refund, s.createRefund},
		{get, "/refunds", tenant.Read, s.listRefunds},
		{get, "/refunds/:out_refund_no", tenant.Read, s.getRefund},
		{post, "/refunds/:out_refund_no/retry", tenant.Refund, s.retryRefund},
		{get, "/events", tenant.Read, s.listEvents},
		{get, "/events/:id", tenant.Read, s.getEvent},
		{post, "/events/:id/replay", tenant.Admin, s.replayEvent},
		{post, "/events/:id/suspense", tenant.Admin, s.exitEvent(s.Books.BookToSuspense)},
		{post, "/events/:id/reject", tenant.Admin, s.exitEvent(s.Books.Reject)},
		{post, "/events/:id/refund", tenant.Admin, s.returnMoney},
		{post, "/accounts", tenant.Write, s.createAccount},
		{get, "/accounts/:code", tenant.Read, s.getAccount},
		{get, "/accounts/:code/entries", tenant.Read, s.listEntries},
		{post, "/journals", tenant.Write, s.postJournals},
		{post, "/transfers", tenant.Write, s.createTransfer},
		{get, "/transfers/:id", tenant.Read, s.getTransfer},
		{put, "/stock/:sku", tenant.Write, s.putStock},
		{get, "/stock/:sku", tenant.Read, s.getStock},
		{get, "/api_keys", tenant.Admin, s.listKeys},
		{post, "/api_keys", tenant.Admin, s.createKey},
		{post, "/api_keys/:id/revoke", tenant.Admin, s.revokeKey},
		{get, "/audit", tenant.Admin, s.listAudit},
	}
}

// Serve listens until ctx is done, then lets running requests end.
func Serve(ctx context.Context, address string, h http.Handler, log *zap.Logger, ready func(address string)) error {
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
		ErrorLog:          serverLog(log),
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

// serverLog gives what net/http itself has to say a place in the log. It is the noise of the network, such as a broken
// handshake: no fault of ours.
func serverLog(log *zap.Logger) *stdlog.Logger {
	std, err := zap.NewStdLogAt(log.Named("http"), zap.InfoLevel)
	if err != nil {
		panic(err) // info is a level
	}
	return std
}

const requestIDKey = "request_id"

func requestID(c *gin.Context) string { return c.GetString(requestIDKey) }

// answerHeaders stand in every answer: nothing of it is stored, guessed at, framed or run. The pages for people, /console and
// /docs, have a policy of their own.
var answerHeaders = map[string]string{
	"X-Content-Type-Options":  "nosniff",
	"Cache-Control":           "no-store",
	"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	"Referrer-Policy":         "no-referrer",
	"X-Frame-Options":         "DENY",
}

// observe names the request and logs its end: method, route and status, never a body, a header or a query.
func (s *server) observe(c *gin.Context) {
	id := make([]byte, 8)
	rand.Read(id)
	c.Set(requestIDKey, hex.EncodeToString(id))
	c.Header("X-Request-Id", requestID(c))
	for name, value := range answerHeaders {
		c.Header(name, value)
	}
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
