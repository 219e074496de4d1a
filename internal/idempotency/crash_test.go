package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
)

// A process that dies at a chosen statement is this test binary, started again: the product itself knows no such point.
const (
	childPoint    = "PAYLATCH_IDEMPOTENCY_CHILD"
	childSettings = "PAYLATCH_IDEMPOTENCY_SETTINGS"
)

type settings struct {
	EngineURL, APIURL, MasterKey string
	// Address is where the child writes the URL that it serves.
	Address string
}

// points are where a process dies: before a statement is sent, or after its answer came.
var points = []struct {
	name, statement string
	after           bool
}{
	{"after the claim", "INSERT INTO idempotency_keys", true},
	{"before the effect commits", "SELECT FROM idempotency_keys", true},
	{"after the effect", "commit", true},
	{"before the answer is kept", "SET status = $5", false},
	{"after the answer is kept", "SET status = $5", true},
}

// story is a request that comes again after its process died.
type story struct {
	route, path, body string
	// effects counts what it does.
	effects string
	status  int
	// moved, where the effect was committed, moves on what it was about: the request would be refused if it came for the first
	// time now.
	moved func(t *testing.T, h shop, url string)
	// found says that a death right after the effect leaves no answer: the effect's own key finds it.
	found bool
}

// stories has one of each operation, and more where there are more ways.
var stories = map[string]story{
	"a payment": {
		route: "/v1/payments", path: "/v1/payments", body: `{"out_trade_no":"o","amount":9900,"currency":"CNY"}`, status: 201,
		effects: "SELECT count(*) FROM payments WHERE out_trade_no = 'o'",
	},
	"a closed payment": {
		route: "/v1/payments/{out_trade_no}/close", path: "/v1/payments/old/close", status: 200,
		effects: "SELECT count(*) FROM payments WHERE out_trade_no = 'old' AND state = 'CLOSED'",
	},
	"a shipped payment": {
		route: "/v1/payments/{out_trade_no}/ship", path: "/v1/payments/paid/ship", status: 200,
		effects: "SELECT count(*) FROM payments WHERE out_trade_no = 'paid' AND shipped_at IS NOT NULL",
		moved: func(t *testing.T, h shop, url string) {
			require.Equal(t, 200, h.post(t, url, "/v1/payments/paid/complete", "", "").status)
		},
	},
	"a completed payment": {
		route: "/v1/payments/{out_trade_no}/complete", path: "/v1/payments/shipped/complete", status: 200,
		effects: "SELECT count(*) FROM payments WHERE out_trade_no = 'shipped' AND state = 'COMPLETED'",
	},
	"a refund": {
		route: "/v1/payments/{out_trade_no}/refunds", path: "/v1/payments/paid/refunds", body: `{"out_refund_no":"r","amount":3}`, status: 201,
		effects: "SELECT count(*) FROM refunds WHERE out_refund_no = 'r'",
	},
	"a refund that is asked about": {
		route: "/v1/refunds/{out_refund_no}/retry", path: "/v1/refunds/open/retry", status: 200,
		effects: "SELECT count(*) FROM audit_log WHERE action = 'refund_retried'",
		moved: func(t *testing.T, h shop, _ string) {
			h.told(t, `{"type":"refund.succeeded","timestamp":"2026-03-01T08:00:00Z","data":{"transaction_id":"tx-shipped","out_trade_no":"shipped","refund_id":"x","out_refund_no":"open","amount":2,"currency":"CNY"}}`)
			require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM refunds WHERE out_refund_no = 'open' AND state = 'SUCCEEDED'"))
		},
	},
	"a sharing": {
		route: "/v1/payments/{out_trade_no}/shares", path: "/v1/payments/paid/shares", body: `{"out_order_no":"s","receivers":[{"account":"r","amount":1}]}`, status: 201,
		effects: "SELECT count(*) FROM shares WHERE out_order_no = 's'",
	},
	"a sharing, once more": {
		route: "/v1/shares/{out_order_no}/retry", path: "/v1/shares/begun/retry", status: 200,
		effects: "SELECT count(*) FROM audit_log WHERE action = 'share_retried'",
		moved: func(t *testing.T, h shop, _ string) {
			h.shared(t, "begun", "CLOSED")
			require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM shares WHERE out_order_no = 'begun' AND state = 'FAILED'"))
		},
	},
	"what a receiver owes": {
		route: "/v1/shares/{out_order_no}/collect", path: "/v1/shares/owed/collect", body: `{"account":"a"}`, status: 200,
		effects: "SELECT count(*) FROM audit_log WHERE action = 'share_collected'",
	},
	"an account": {
		route: "/v1/accounts", path: "/v1/accounts", body: `{"code":"c","currency":"CNY"}`, status: 201,
		effects: "SELECT count(*) FROM ledger_accounts WHERE code = 'c'",
	},
	"a journal": {
		route: "/v1/journals", path: "/v1/journals", body: `{"journals":[` + journal("1") + `]}`, status: 200, found: true,
		effects: "SELECT count(*) FROM journals WHERE key LIKE 'posting:j%'",
	},
	"journals": {
		route: "/v1/journals", path: "/v1/journals", body: `{"journals":[` + journal("1") + `,` + journal("2") + `]}`, status: 200, found: true,
		effects: "SELECT count(*) / 2 FROM journals WHERE key LIKE 'posting:j%'",
	},
	"a transfer": {
		route: "/v1/transfers", path: "/v1/transfers", body: `{"from":"a","to":"b","amount":5,"currency":"CNY"}`, status: 201,
		effects: "SELECT count(*) FROM transfers",
	},
	"a refused transfer": {
		route: "/v1/transfers", path: "/v1/transfers", body: `{"from":"b","to":"a","amount":5,"currency":"CNY"}`, status: 409,
		effects: "SELECT count(*) FROM transfers",
		moved: func(t *testing.T, h shop, url string) {
			require.Equal(t, 201, h.post(t, url, "/v1/transfers", "rich", `{"from":"a","to":"b","amount":50,"currency":"CNY"}`).status)
		},
	},
	"a transfer by a flow": {
		route: "/v1/transfers", path: "/v1/transfers", body: `{"from":"a","to":"b","amount":5,"currency":"CNY","mode":"tcc"}`, status: 201, found: true,
		effects: "SELECT count(*) FROM transfers",
	},
	"a key": {
		route: "/v1/api_keys", path: "/v1/api_keys", body: `{"name":"till","scopes":["read"]}`, status: 201,
		effects: "SELECT count(*) FROM api_keys WHERE name = 'till'",
	},
	"a revoked key": {
		route: "/v1/api_keys/{id}/revoke", path: "/v1/api_keys/2/revoke", status: 200,
		effects: "SELECT count(*) FROM api_keys WHERE revoked_at IS NOT NULL",
	},
	"an event, once more": {
		route: "/v1/events/{id}/replay", path: "/v1/events/1/replay", status: 200, found: true,
		effects: "SELECT count(*) FROM channel_events WHERE id = 1 AND state = 'PARKED'",
	},
	"a rejected event": {
		route: "/v1/events/{id}/reject", path: "/v1/events/1/reject", body: `{"reason":"no"}`, status: 200,
		effects: "SELECT count(*) FROM audit_log WHERE action = 'event_rejected'",
	},
	"an event, suspended": {
		route: "/v1/events/{id}/suspense", path: "/v1/events/1/suspense", body: `{"reason":"no"}`, status: 200,
		effects: "SELECT count(*) FROM journals WHERE key LIKE '%:tx' AND kind = 'payment_suspense'",
	},
	"money given back": {
		route: "/v1/events/{id}/refund", path: "/v1/events/2/refund", body: `{"reason":"no"}`, status: 201,
		effects: "SELECT count(*) FROM refunds WHERE origin = 'suspense'",
	},
}

func TestThereIsAStoryOfEveryPost(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../api/openapi.yaml")
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(text, &document))
	var described []string
	for path, operations := range document.Paths {
		if _, ok := operations["post"]; ok && strings.HasPrefix(path, "/v1/") {
			described = append(described, path)
		}
	}
	told := map[string]bool{}
	for _, s := range stories {
		told[s.route] = true
		require.Regexp(t, "^"+regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(s.route, "[a-z0-9]+")+"$", s.path)
	}
	require.ElementsMatch(t, described, slices.Collect(maps.Keys(told)))
}

func journal(n string) string {
	return `{"key":"j` + n + `","lines":[{"account":"a","currency":"CNY","amount":-5},{"account":"b","currency":"CNY","amount":5}]}`
}

func TestAProcessThatDiesAnywhereLeavesOneEffectAndAnAnswer(t *testing.T) {
	t.Parallel()
	for name, story := range stories {
		for _, point := range points {
			t.Run(name+" "+point.name, func(t *testing.T) {
				t.Parallel()
				h := newShop(t)
				before := h.Count(t, story.effects)
				url, ended := startChild(t, h, point.statement, point.after)
				_, err := send(url+story.path, h.APIKey, "k", story.body)
				require.Error(t, err, "no answer")
				requireKilled(t, ended)

				again := serve(t, h)
				done := h.Count(t, story.effects) > before
				if h.Count(t, "SELECT count(*) FROM idempotency_keys WHERE status IS NULL") == 1 {
					require.True(t, !done || story.found, "the effect and its answer are committed together")
					got := h.post(t, again, story.path, "k", story.body, "Prefer", "respond-async")
					require.Equal(t, 202, got.status, got.text)
					lapse(t, h.Database)
				}
				effects := before + 1
				if done && story.moved != nil {
					story.moved(t, h, again)
					effects = h.Count(t, story.effects)
				}
				first := h.post(t, again, story.path, "k", story.body)
				require.Equal(t, story.status, first.status, first.text)
				require.NotContains(t, first.text, "in_progress")
				if name != "an event, once more" { // which changes nothing that could be counted
					require.Equal(t, effects, h.Count(t, story.effects))
				}

				second := h.post(t, again, story.path, "k", story.body)
				require.Equal(t, "true", second.replayed)
				require.Equal(t, first.status, second.status)
				if name != "a key" { // which is shown once
					require.Equal(t, first.text, second.text)
				}
				require.Equal(t, 422, h.post(t, again, story.path, "k", strings.Replace(story.body, "}", ` ,"x":1}`, 1)+map[bool]string{true: "{}"}[story.body == ""]).status)
				h.RequireInvariants(t)
			})
		}
	}
}

// shop is a house with accounts, an order and a parked event.
type shop struct{ *testhouse.House }

func newShop(t *testing.T) shop {
	t.Helper()
	h := shop{testhouse.New(t, &testhouse.Deliveries{})}
	url := serve(t, h)
	for i, call := range []struct{ path, body string }{
		{"/v1/accounts", `{"code":"funding","currency":"CNY","allow_negative":true}`},
		{"/v1/accounts", `{"code":"a","currency":"CNY"}`},
		{"/v1/accounts", `{"code":"b","currency":"CNY"}`},
		{"/v1/journals", `{"journals":[{"key":"f","lines":[{"account":"funding","currency":"CNY","amount":-500},{"account":"a","currency":"CNY","amount":500}]}]}`},
		{"/v1/payments", `{"out_trade_no":"old","amount":1,"currency":"CNY"}`},
		{"/v1/payments", `{"out_trade_no":"paid","amount":9,"currency":"CNY"}`},
		{"/v1/payments", `{"out_trade_no":"shipped","amount":20,"currency":"CNY"}`},
		{"/v1/payments", `{"out_trade_no":"divided","amount":20,"currency":"CNY"}`},
		{"/v1/payments", `{"out_trade_no":"parted","amount":20,"currency":"CNY"}`},
		{"/v1/api_keys", `{"scopes":["read"]}`},
	} {
		got := h.post(t, url, call.path, "", call.body)
		require.Less(t, got.status, 300, "%d: %s", i, got.text)
	}
	// Event 1 is parked, 2 is in suspense, 3 has paid.
	require.Equal(t, payment.UnknownOrder, h.Report(t, testhouse.Paid(t, "tx", "nobody", 7)).Outcome)
	aside := h.Report(t, testhouse.Paid(t, "tx-2", "nobody", 8))
	_, err := h.Books.BookToSuspense(t.Context(), h.Tenant, aside.EventID, "it came")
	require.NoError(t, err)
	for order, amount := range map[string]int64{"paid": 9, "shipped": 20, "divided": 20, "parted": 20} {
		h.told(t, string(testhouse.Paid(t, "tx-"+order, order, amount)))
	}
	call := func(path, body string) {
		got := h.post(t, url, path, "", body)
		require.Less(t, got.status, 300, "%s: %s", path, got.text)
	}
	call("/v1/payments/shipped/ship", "")
	// One refund is open, and its channel can be asked. One sharing has begun. Of another, receivers owe what was refunded.
	call("/v1/payments/shipped/refunds", `{"out_refund_no":"open","amount":2}`)
	_, err = h.Owner.Exec(t.Context(), "UPDATE refunds SET asks = true, next_drive_at = now() + interval '1 hour' WHERE out_refund_no = 'open'")
	require.NoError(t, err)
	for order, number := range map[string]string{"parted": "begun", "divided": "owed"} {
		call("/v1/payments/"+order+"/shares", `{"out_order_no":"`+number+`","receivers":[{"account":"a","amount":1},{"account":"b","amount":1}]}`)
	}
	h.shared(t, "owed", "SUCCEEDED")
	call("/v1/payments/divided/refunds", `{"out_refund_no":"undone","amount":20}`)
	h.told(t, `{"type":"refund.succeeded","timestamp":"2026-03-01T08:00:00Z","data":{"transaction_id":"tx-divided","out_trade_no":"divided","refund_id":"u","out_refund_no":"undone","amount":20,"currency":"CNY"}}`)
	require.Equal(t, 2, h.Count(t, "SELECT count(*) FROM share_returns WHERE state = 'OWED'"))
	return h
}

// shared books how a sharing of one unit each to two receivers ended.
func (h shop) shared(t *testing.T, number, state string) {
	t.Helper()
	h.told(t, `{"type":"share.result","timestamp":"2026-03-01T08:00:00Z","data":{"share_id":"`+number+`","out_order_no":"`+number+`","currency":"CNY","receivers":[{"account":"a","amount":1,"state":"`+state+`"},{"account":"b","amount":1,"state":"`+state+`"}]}}`)
}

// told books what the channel tells.
func (h shop) told(t *testing.T, message string) {
	t.Helper()
	reported, err := h.Entry.Report(t.Context(), h.Account, []byte(message), h.Clock.Now())
	require.NoError(t, err)
	for _, r := range reported {
		require.Equal(t, payment.Received, r.State, "%+v", r)
		_, err := h.Books.Apply(t.Context(), r.EventID)
		require.NoError(t, err)
	}
}

type answerOf struct {
	status         int
	text, replayed string
}

func (h shop) post(t *testing.T, url, path, key, body string, headers ...string) answerOf {
	t.Helper()
	got, err := send(url+path, h.APIKey, key, body, headers...)
	require.NoError(t, err)
	return got
}

func send(url, apiKey, key, body string, headers ...string) (answerOf, error) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answerOf{}, err
	}
	r.Header.Set("Authorization", "Bearer "+apiKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answerOf{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answerOf{response.StatusCode, string(text), response.Header.Get("Idempotency-Replayed")}, err
}

func lapse(t *testing.T, db *testhouse.Database) {
	t.Helper()
	house{Database: db}.lapse(t)
}

// serve serves the API in this process.
func serve(t *testing.T, h shop) string {
	t.Helper()
	handler, stop, err := handlerOn(h.API, h.Engine, h.MasterKey)
	require.NoError(t, err)
	t.Cleanup(stop)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}

func handlerOn(apiDB, engine *pgxpool.Pool, masterKey string) (http.Handler, func(), error) {
	box, err := sealed.New(masterKey)
	if err != nil {
		return nil, nil, err
	}
	log := zap.NewNop()
	accounts := tenant.NewAccounts(engine, registry.All(), box)
	driver := &testhouse.Deliveries{}
	group := ledger.NewGroup(engine)
	entry := payment.NewEntry(engine, accounts, driver, log, payment.DefaultPlan, nil)
	transfers := transfer.NewService(engine, box, driver, log, nil)
	shares := share.NewService(engine, accounts, entry, driver, log, nil)
	return api.Handler(api.Config{
		Orders: payment.NewOrders(apiDB, accounts.Asks), Books: payment.NewBooks(engine, log), Accounts: accounts, Group: group,
		Entry:     entry,
		Transfers: transfers,
		AwaitTransfer: func(ctx context.Context, t transfer.Transfer) error { // as its flow does it
			tried, err := transfers.Try(ctx, t.ID)
			if err == nil {
				_, err = transfers.Decide(ctx, t.ID, tried.Failure)
			}
			if err == nil {
				_, err = transfers.End(ctx, t.ID, true)
			}
			return err
		},
		Refunds: refund.New(refund.Config{Pool: engine, Accounts: accounts, Entry: entry, Driver: driver, Shares: shares, Log: log}),
		Shares:  shares,
		API:     apiDB, Engine: engine, Log: log, WorkflowURL: func(id string) string { return id },
	}), group.Stop, nil
}

// startChild serves the API in a process that dies at a statement; ended gives its end.
func startChild(t *testing.T, h shop, statement string, after bool) (url string, ended <-chan error) {
	t.Helper()
	address := filepath.Join(t.TempDir(), "address")
	text, err := json.Marshal(settings{h.EngineURL, h.APIURL, h.MasterKey, address})
	require.NoError(t, err)
	point, err := json.Marshal(map[string]any{"statement": statement, "after": after})
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPoint+"="+string(point), childSettings+"="+string(text))
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it is dead already, if all went well
		<-done
	})
	require.Eventually(t, func() bool {
		served, err := os.ReadFile(address)
		url = string(served)
		return err == nil
	}, 40*time.Second, 10*time.Millisecond)
	return url, done
}

func requireKilled(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	case <-time.After(40 * time.Second):
		t.Fatal("the process did not come to the point where it dies")
	}
}

func runChild(point string) int {
	if err := child(point); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func child(point string) error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(childSettings)), &s); err != nil {
		return err
	}
	var p struct {
		Statement string
		After     bool
	}
	if err := json.Unmarshal([]byte(point), &p); err != nil {
		return err
	}
	// The commit that counts is the first one after the claim.
	var claimed atomic.Bool
	die := func(sql string) {
		if strings.Contains(sql, p.Statement) && (claimed.Load() || p.Statement != "commit") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	trace := statements{
		begins: func(sql string) {
			if !p.After {
				die(sql)
			}
		},
		ended: func(sql string) {
			if p.After {
				die(sql)
			}
			if strings.Contains(sql, "INSERT INTO idempotency_keys") {
				claimed.Store(true)
			}
		},
	}
	apiDB, err := openTraced(s.APIURL, trace)
	if err != nil {
		return err
	}
	engine, err := openTraced(s.EngineURL, trace)
	if err != nil {
		return err
	}
	handler, _, err := handlerOn(apiDB, engine, s.MasterKey)
	if err != nil {
		return err
	}
	srv := httptest.NewServer(handler)
	defer srv.Close()
	if err := os.WriteFile(s.Address+".new", []byte(srv.URL), 0o600); err != nil {
		return err
	}
	if err := os.Rename(s.Address+".new", s.Address); err != nil {
		return err
	}
	select {}
}
