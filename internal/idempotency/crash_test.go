package idempotency_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/sealed"
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

// stories are requests, each with what counts its effects.
var stories = map[string]struct{ path, body, effects string }{
	"a payment":           {"/v1/payments", `{"out_trade_no":"o","amount":9900,"currency":"CNY"}`, "SELECT count(*) FROM payments WHERE out_trade_no = 'o'"},
	"a transfer":          {"/v1/transfers", `{"from":"a","to":"b","amount":5,"currency":"CNY"}`, "SELECT count(*) FROM transfers"},
	"a refused transfer":  {"/v1/transfers", `{"from":"b","to":"a","amount":5,"currency":"CNY"}`, "SELECT count(*) FROM transfers"},
	"a journal":           {"/v1/journals", `{"journals":[` + journal("1") + `]}`, "SELECT count(*) FROM journals WHERE key LIKE 'posting:j%'"},
	"an account":          {"/v1/accounts", `{"code":"c","currency":"CNY"}`, "SELECT count(*) FROM ledger_accounts WHERE code = 'c'"},
	"a key":               {"/v1/api_keys", `{"name":"till","scopes":["read"]}`, "SELECT count(*) FROM api_keys WHERE name = 'till'"},
	"a closed payment":    {"/v1/payments/old/close", ``, "SELECT count(*) FROM payments WHERE out_trade_no = 'old' AND state = 'CLOSED'"},
	"a rejected event":    {"/v1/events/1/reject", `{"reason":"no"}`, "SELECT count(*) FROM audit_log WHERE action = 'event_rejected'"},
	"a refund":            {"/v1/payments/paid/refunds", `{"out_refund_no":"r","amount":3}`, "SELECT count(*) FROM refunds"},
	"money given back":    {"/v1/events/2/refund", `{"reason":"no"}`, "SELECT count(*) FROM refunds"},
	"an event, suspended": {"/v1/events/1/suspense", `{"reason":"no"}`, "SELECT count(*) FROM journals WHERE key LIKE '%:tx' AND kind = 'payment_suspense'"},
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
				url, ended := startChild(t, h, point.statement, point.after)
				_, err := send(url+story.path, h.APIKey, "k", story.body)
				require.Error(t, err, "no answer")
				requireKilled(t, ended)

				again := serve(t, h)
				if h.Count(t, "SELECT count(*) FROM idempotency_keys WHERE status IS NULL") == 1 {
					got := h.post(t, again, story.path, "k", story.body, "Prefer", "respond-async")
					require.Equal(t, 202, got.status, got.text)
					lapse(t, h.Database)
				}
				first := h.post(t, again, story.path, "k", story.body)
				require.Contains(t, []int{200, 201, 409}, first.status, first.text)
				require.NotContains(t, first.text, "in_progress")
				require.Equal(t, 1, h.Count(t, story.effects))
				require.NotEqual(t, name == "a refused transfer", first.status < 300)

				second := h.post(t, again, story.path, "k", story.body)
				require.Equal(t, "true", second.replayed)
				require.Equal(t, first.status, second.status)
				if name != "a key" { // which is shown once
					require.Equal(t, first.text, second.text)
				}
				require.Equal(t, 422, h.post(t, again, story.path, "k", strings.Replace(story.body, "}", ` ,"x":1}`, 1)+map[bool]string{true: "{}"}[story.body == ""]).status)
				require.Equal(t, 1, h.Count(t, story.effects))
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
	} {
		got := h.post(t, url, call.path, "", call.body)
		require.Less(t, got.status, 300, "%d: %s", i, got.text)
	}
	// Event 1 is parked, 2 is in suspense, 3 has paid.
	require.Equal(t, payment.UnknownOrder, h.Report(t, testhouse.Paid(t, "tx", "nobody", 7)).Outcome)
	aside := h.Report(t, testhouse.Paid(t, "tx-2", "nobody", 8))
	_, err := h.Books.BookToSuspense(t.Context(), h.Tenant, aside.EventID, "it came")
	require.NoError(t, err)
	applied, err := h.Books.Apply(t.Context(), h.Report(t, testhouse.Paid(t, "tx-3", "paid", 9)).EventID)
	require.NoError(t, err)
	require.Equal(t, payment.Credited, applied.Outcome)
	return h
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
	return api.Handler(api.Config{
		Orders: payment.NewOrders(apiDB, accounts.Asks), Books: payment.NewBooks(engine, log), Accounts: accounts, Group: group,
		Entry:     entry,
		Transfers: transfer.NewService(engine, box, driver, log, nil),
		Refunds:   refund.New(refund.Config{Pool: engine, Accounts: accounts, Entry: entry, Driver: driver, Log: log}),
		API:       apiDB, Engine: engine, Log: log, WorkflowURL: func(id string) string { return id },
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
