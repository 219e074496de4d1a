// Package e2e plays whole stories on real servers: PostgreSQL, Temporal, HTTP, and processes that are killed.
package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	code := devstack.Main(m, devstack.Needs{Postgres: true, Temporal: true, SearchAttributes: workflows.SearchAttributes()})
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "leaked goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// The stories run one after another: they share the task queues, and each has its own idea of who serves them.

// newStory gives a house whose events go to the real engine; nobody works on them yet.
func newStory(t *testing.T) (*testhouse.House, client.Client) {
	t.Helper()
	c := newClient(t)
	return testhouse.New(t, start.New(c)), c
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	options, err := engine.Options(devstack.TestTemporal().Address(), zap.NewNop())
	require.NoError(t, err)
	options.Identity = "paylatch" // recorded histories name no machine
	c, err := engine.Open(options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// work serves all queues until the returned function is called, or the test ends.
func work(t *testing.T, h *testhouse.House, c client.Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		var redrive sync.WaitGroup
		redrive.Go(func() { worker.Redrive(ctx, h.Log, h.Entry, h.Transfers, h.Acquiring, h.Shares, h.Refunds) })
		err := worker.Run(ctx, worker.Config{
			Client: c, Queues: worker.Queues(), Log: h.Log, DatabaseConnections: 8,
			Serves: worker.Activities{Books: h.Books, Transfers: h.Transfers, Acquiring: h.Acquiring, Shares: h.Shares, Refunds: h.Refunds, Log: h.Log},
		})
		redrive.Wait()
		done <- err
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

// serve starts an instance of the API with pools of its own.
func serve(t *testing.T, h *testhouse.House, driver testhouse.Driver) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(handler(t, h, driver))
	t.Cleanup(srv.Close)
	return srv
}

func handler(t *testing.T, h *testhouse.House, driver testhouse.Driver) http.Handler {
	t.Helper()
	engineDB, err := database.Open(h.EngineURL, 16)
	require.NoError(t, err)
	t.Cleanup(engineDB.Close)
	var prepay func(context.Context, acquiring.Ref) error
	if starter, ok := driver.(*start.Starter); ok {
		prepay = starter.Prepay
	}
	return api.Handler(api.Config{
		Prepay:        prepay,
		Orders:        h.Orders,
		Entry:         payment.NewEntry(engineDB, h.Accounts, driver, h.Log, payment.DefaultPlan, h.Clock.Now, h.Matters...),
		Books:         h.Books,
		Accounts:      h.Accounts,
		Acquiring:     h.Acquiring,
		Shares:        h.Shares,
		Refunds:       h.Refunds,
		Transfers:     h.Transfers,
		AwaitTransfer: func(ctx context.Context, _ transfer.Transfer) error { <-ctx.Done(); return ctx.Err() },
		API:           h.API,
		Engine:        engineDB,
		DatabaseReady: func(ctx context.Context) error { return database.Ready(ctx, engineDB) },
		EngineReady:   func(context.Context) error { return nil },
		WorkflowURL:   func(id string) string { return id },
		Log:           h.Log,
	})
}

// callback sends one signed message and gives the status of its answer; 0 if there was none.
func callback(h *testhouse.House, base string, body []byte) int {
	return send(base+"/callbacks/standard/"+h.Account.Name, h.Secret, body)
}

func send(url, secret string, body []byte) int {
	header, err := standard.Sign(secret, "msg", time.Now(), body)
	if err != nil {
		return 0
	}
	return post(url, header, body)
}

func paid(t *testing.T, order string) []byte {
	t.Helper()
	body, err := standard.Channel{}.Compose(channel.Sample{
		TransactionID: "tx-" + order, OutTradeNo: order, Amount: 9900, Currency: "CNY", OccurredAt: time.Unix(1_770_000_000, 0),
	})
	require.NoError(t, err)
	return body
}

// requireState waits until an order is in a state.
func requireState(t *testing.T, h *testhouse.House, order string, want payment.State) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := h.Orders.Get(t.Context(), h.Tenant, order)
		return err == nil && p.State == want
	}, 40*time.Second, 20*time.Millisecond, "order %s never became %s", order, want)
}

// requireCreditedOnce holds an order to the promise.
func requireCreditedOnce(t *testing.T, h *testhouse.House, orders ...string) {
	t.Helper()
	for _, order := range orders {
		requireState(t, h, order, payment.Paid)
		require.Equal(t, []string{"DONE CREDITED"}, h.Events(t, order))
	}
	require.Equal(t, len(orders), h.Journals(t))
	require.Equal(t, 9900*len(orders), h.Balance(t, "merchant"))
	h.RequireInvariants(t)
}
