package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
)

func TestMain(m *testing.M) { os.Exit(devstack.Main(m, devstack.Needs{Postgres: true})) }

// face is a house with its HTTP face on a real server. What it answers is held against openapi.yaml.
type face struct {
	*testhouse.House
	URL     string
	Logs    *observer.ObservedLogs
	handler http.Handler
	driver  *testhouse.Deliveries // nil where open was given another driver
	// What the tests of readiness and of panics turn on.
	engineAway, databaseAway atomic.Pointer[error]
	broken                   atomic.Bool
}

// newFace opens a house whose engine keeps what it is given.
func newFace(t *testing.T) *face {
	t.Helper()
	driver := &testhouse.Deliveries{}
	f := openFace(t, driver)
	f.driver = driver
	return f
}

func openFace(t *testing.T, driver testhouse.Driver) *face {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	log := zap.New(core)
	f := &face{House: testhouse.New(t, driver), Logs: logs}
	f.Log = log
	f.serve(t, driver)
	return f
}

// serve opens the house's parts and its face anew, for a test that has changed a pool or the log.
func (f *face) serve(t *testing.T, driver testhouse.Driver) {
	t.Helper()
	f.Open(t, driver)
	f.handler = api.Handler(api.Config{
		Orders: f.Orders, Entry: f.Entry, Books: f.Books, Accounts: f.Accounts, API: f.API, Engine: f.Engine,
		Acquiring: f.Acquiring, Shares: f.Shares, Refunds: f.Refunds, Transfers: f.Transfers, AwaitTransfer: f.awaitTransfer, Group: f.group(t),
		DatabaseReady: func(ctx context.Context) error {
			if away := f.databaseAway.Load(); away != nil {
				return *away
			}
			return errors.Join(database.Ready(ctx, f.Engine), f.API.Ping(ctx))
		},
		EngineReady: func(context.Context) error {
			if f.broken.Load() {
				panic("the check is broken")
			}
			if away := f.engineAway.Load(); away != nil {
				return *away
			}
			return nil
		},
		WorkflowURL: func(id string) string {
			if f.broken.Load() {
				panic("the link is broken")
			}
			return "http://ui.invalid/" + id
		},
		Log: f.Log,
	})
	srv := httptest.NewServer(f.handler)
	t.Cleanup(srv.Close)
	f.URL = srv.URL
}

// group commits single journals, as serve does.
func (f *face) group(t *testing.T) *ledger.Group {
	t.Helper()
	g := ledger.NewGroup(f.Engine)
	t.Cleanup(g.Stop)
	return g
}

// awaitTransfer plays the flow of a transfer whose legs all live in the database, as the workers would.
func (f *face) awaitTransfer(ctx context.Context, t transfer.Transfer) error {
	p, err := f.Transfers.Try(ctx, t.ID)
	if err != nil || len(p.External) > 0 {
		return err
	}
	if _, err := f.Transfers.Decide(ctx, t.ID, p.Failure); err != nil {
		return err
	}
	_, err = f.Transfers.End(ctx, t.ID, true)
	return err
}

// reply is an answer, read to its end.
type reply struct {
	*http.Response
	Text string
}

// send sends a request as it is and holds the answer against openapi.yaml.
func (f *face) send(t *testing.T, r *http.Request) reply {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	got := readReply(t, response)
	require.NotEmpty(t, got.Header.Get("X-Request-Id"))
	requireDescribed(t, r.Method, r.URL.Path, got)
	return got
}

func readReply(t *testing.T, response *http.Response) reply {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return reply{response, string(text)}
}

// call sends a merchant's request under the house's API key; a body goes as JSON.
func (f *face) call(t *testing.T, method, path, body string) reply {
	t.Helper()
	return f.callAs(t, f.APIKey, method, path, body)
}

func (f *face) callAs(t *testing.T, apiKey, method, path, body string) reply {
	t.Helper()
	r := f.request(t, method, path, body)
	r.Header.Set("Authorization", "Bearer "+apiKey)
	return f.send(t, r)
}

func (f *face) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (f *face) callbackPath() string { return "/callbacks/standard/" + f.Account.Name }

// callback makes a callback that the house's channel signed now.
func (f *face) callback(t *testing.T, body string) *http.Request {
	t.Helper()
	return f.signed(t, f.Secret, time.Now(), body)
}

func (f *face) signed(t *testing.T, secret string, at time.Time, body string) *http.Request {
	t.Helper()
	r := f.request(t, http.MethodPost, f.callbackPath(), body)
	r.Header = sign(t, secret, at, body)
	return r
}

func sign(t *testing.T, secret string, at time.Time, body string) http.Header {
	t.Helper()
	header, err := standard.Sign(secret, "msg_1", at, []byte(body))
	require.NoError(t, err)
	return header
}

// report sends a callback that must be acknowledged.
func (f *face) report(t *testing.T, body []byte) {
	t.Helper()
	f.send(t, f.callback(t, string(body))).is(t, http.StatusOK)
}

// pay reports the payment of an order and books it.
func (f *face) pay(t *testing.T, transactionID, outTradeNo string, amount int64) {
	t.Helper()
	f.report(t, testhouse.Paid(t, transactionID, outTradeNo, amount))
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
}

// order creates an order of 9900 over HTTP.
func (f *face) order(t *testing.T, outTradeNo string) {
	t.Helper()
	f.call(t, "POST", "/v1/payments", orderBody(outTradeNo)).is(t, http.StatusCreated)
}

func orderBody(outTradeNo string) string {
	return `{"out_trade_no":"` + outTradeNo + `","amount":9900,"currency":"CNY"}`
}

// stored counts what callbacks left behind.
func (f *face) stored(t *testing.T) int {
	t.Helper()
	return f.Count(t, "SELECT (SELECT count(*) FROM channel_receipts) + (SELECT count(*) FROM channel_events)")
}

// requireNoError holds that no handler failed or panicked.
func (f *face) requireNoError(t *testing.T) {
	t.Helper()
	for _, entry := range f.Logs.All() {
		require.NotContains(t, []string{"request failed", "panic in a handler", "callback not stored"}, entry.Message, "%v", entry.ContextMap())
	}
}

func (r reply) is(t *testing.T, status int) reply {
	t.Helper()
	require.Equal(t, status, r.StatusCode, r.Text)
	return r
}

// problem requires application/problem+json with this status and code.
func (r reply) problem(t *testing.T, status int, code string) {
	t.Helper()
	r.is(t, status)
	require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
	var p struct {
		Status int
		Code   string
		Detail string
	}
	require.NoError(t, json.Unmarshal([]byte(r.Text), &p))
	require.Equal(t, code, p.Code, r.Text)
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Detail)
}

// fields reads a JSON object; numbers stay as they were written.
func (r reply) fields(t *testing.T) map[string]any {
	t.Helper()
	return readJSON(t, r.Text).(map[string]any)
}

// items gives one field of each item of a list.
func (r reply) items(t *testing.T, field string) []any {
	t.Helper()
	values := []any{}
	for _, item := range r.is(t, http.StatusOK).fields(t)["items"].([]any) {
		values = append(values, item.(map[string]any)[field])
	}
	return values
}

func readJSON(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v), text)
	return v
}
