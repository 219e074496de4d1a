package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestReadinessTellsTheEngineFromTheDatabase(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	get := func(path string, status int) map[string]any {
		t.Helper()
		return f.send(t, f.request(t, "GET", path, "")).is(t, status).fields(t)
	}
	require.Equal(t, map[string]any{"status": "ok"}, get("/healthz", 200))
	require.Equal(t, map[string]any{"status": "ok", "database": "ok", "temporal": "ok"}, get("/readyz", 200))

	away := errors.New("dial tcp engine.internal:7233: user=admin password=hunter2 refused")
	f.engineAway.Store(&away)
	require.Equal(t, map[string]any{"status": "unavailable", "database": "ok", "temporal": "does not answer"}, get("/readyz", 503))
	require.Equal(t, map[string]any{"status": "ok", "database": "ok"}, get("/readyz/callbacks", 200))

	f.databaseAway.Store(&away)
	require.Equal(t, map[string]any{"status": "unavailable", "database": "does not answer"}, get("/readyz/callbacks", 503))
	require.Equal(t, map[string]any{"status": "ok"}, get("/healthz", 200))
}

func TestReadinessNamesAnOldSchema(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	_, err := f.Owner.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
	require.NoError(t, err)
	require.Contains(t, f.call(t, "GET", "/readyz", "").is(t, 503).fields(t)["database"], "paylatch migrate up")
}

func TestACheckThatPanicsIsNotReadyAndTheProcessLives(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.broken.Store(true)
	require.Equal(t, "does not answer", f.call(t, "GET", "/readyz", "").is(t, 503).fields(t)["temporal"])
	f.broken.Store(false)
	f.call(t, "GET", "/readyz", "").is(t, 200)
}

func TestCallbacksAreCounted(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	f.send(t, f.withHeaders(t, "{}", nil)).is(t, 400)
	metrics := f.send(t, f.request(t, "GET", "/metrics", "")).is(t, 200).Text
	require.Contains(t, metrics, `paylatch_callbacks_total{channel="standard",result="accepted"} `)
	require.Contains(t, metrics, `paylatch_callbacks_total{channel="standard",result="signature_missing"} `)
}

func TestAPanicIsA500AndTheProcessLives(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	f.broken.Store(true)
	f.call(t, "GET", "/v1/payments/o", "").problem(t, 500, "internal")
	f.broken.Store(false)
	f.call(t, "GET", "/v1/payments/o", "").is(t, 200)
	require.Equal(t, 1, f.Logs.FilterMessage("panic in a handler").Len())
}

func TestAnAnswerThatCannotBeWrittenIsNoEmpty200(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	// JSON has no time after the year 9999.
	_, err := f.Owner.Exec(t.Context(), "UPDATE channel_events SET occurred_at = '20000-01-01'")
	require.NoError(t, err)
	f.call(t, "GET", "/v1/events", "").problem(t, 500, "internal")
}

func TestAPanicBehindACallbackIsNoAck(t *testing.T) {
	t.Parallel()
	f := openFace(t, panicking{})
	f.order(t, "o")
	f.send(t, f.callback(t, string(testhouse.Paid(t, "tx", "o", 9900)))).problem(t, 500, "internal")
	require.Equal(t, "RECEIVED", f.onlyEvent(t)["state"], "it is stored all the same, and the re-drive's")
}

func TestAPathOrMethodThatDoesNotExistIsAProblem(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/payments/", "/v1/nothing", "/v1/payments/a/b/c", "/callbacks", "/callbacks/standard", "/v1//payments", "/v1/payments/a%2Fb/x"} {
		f.call(t, "GET", path, "").problem(t, 404, "route_not_found")
	}
	for path, allow := range map[string]string{"/v1/payments": "GET", "/v1/payments/o/close": "POST", "/healthz": "GET"} {
		got := f.call(t, "DELETE", path, "")
		got.problem(t, 405, "method_not_allowed")
		require.Contains(t, got.Header.Get("Allow"), allow)
	}
}

func TestNoAnswerAndNoLogLineGivesASecretOrABodyAway(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	const marker = "marker-6c1f"
	var answers strings.Builder
	try := func(got reply) {
		t.Helper()
		answers.WriteString(got.Text)
		for name, values := range got.Header {
			fmt.Fprintln(&answers, name, values)
		}
	}
	post := func(path, body string) { t.Helper(); try(f.call(t, "POST", path, body)) }

	f.order(t, "o")
	for _, body := range []string{
		"{" + marker, `"` + marker + `"`, with("amount", `"`+marker+`"`), with("description", `"`+marker+`\u0000"`), with("currency", `"`+marker+`"`),
		with("metadata", `["`+marker+`"]`), with("out_trade_no", `"`+marker+`/"`), with("channel", `"`+marker+`"`), with("metadata", `{"`+marker+`":1,"`+marker+`":2}`),
	} {
		post("/v1/payments", body)
	}
	post("/v1/payments/o/close", `["`+marker+`"]`)
	post("/v1/events/0/reject", `{"reason":"`+marker+`"}`)
	message := `{"type":"payment.succeeded","data":{"transaction_id":"tx","out_trade_no":"o","amount":9900,"currency":"CNY","note":"` + marker + `"}}`
	try(f.send(t, f.callback(t, message)))
	try(f.send(t, f.callback(t, marker)))
	try(f.send(t, f.callback(t, `{"type":"payment.succeeded","data":{"transaction_id":5,"note":"`+marker+`"}}`)))
	try(f.send(t, f.signed(t, testhouse.NewSecret(), time.Now(), message)))
	try(f.send(t, f.edited(t, message, func(h http.Header) { h.Del("webhook-id") })))
	try(f.callAs(t, f.APIKey+"x", "GET", "/v1/payments", ""))
	try(f.call(t, "GET", "/v1/payments?limit="+marker, ""))
	// A new key stands in the answer that makes it, and nowhere else.
	made := f.post(t, "secret", "/v1/api_keys", `{"name":"`+marker+`","scopes":["read"]}`).is(t, 201).fields(t)["api_key"].(string)
	require.NotContains(t, f.post(t, "secret", "/v1/api_keys", `{"name":"`+marker+`","scopes":["read"]}`).Text, made)
	f.callAs(t, made, "POST", "/v1/payments", orderBody("o")).problem(t, 403, "scope_missing")
	f.broken.Store(true)
	try(f.call(t, "GET", "/v1/payments/o", ""))
	f.broken.Store(false)
	// The database refuses what it is asked, and then everything.
	_, err := f.Owner.Exec(t.Context(), "ALTER TABLE payments RENAME TO elsewhere")
	require.NoError(t, err)
	post("/v1/payments", with("description", `"`+marker+`"`))
	try(f.call(t, "GET", "/v1/payments", ""))
	f.API.Close()
	f.Engine.Close()
	try(f.send(t, f.callback(t, message)).is(t, 500))
	try(f.call(t, "GET", "/v1/payments", "").is(t, 500))
	try(f.call(t, "GET", "/readyz", "").is(t, 503))

	var logged strings.Builder
	for _, entry := range f.Logs.All() {
		fmt.Fprintln(&logged, entry.Message, entry.ContextMap())
	}
	require.NotEmpty(t, logged.String())
	database, err := url.Parse(f.EngineURL)
	require.NoError(t, err)
	secrets := map[string]string{"API key": f.APIKey, "channel secret": f.Secret, "its key": strings.TrimPrefix(f.Secret, "whsec_"), "body": marker, "master key": f.MasterKey, "a new API key": made}
	if password, ok := database.User.Password(); ok {
		secrets["database password"] = password
	}
	for name, secret := range secrets {
		require.NotContains(t, answers.String(), secret, name)
		require.NotContains(t, logged.String(), secret, name)
	}
	for _, inner := range []string{database.Host, "SQLSTATE", "elsewhere", "relation", "pool", "user=", ".go:"} {
		require.NotContains(t, answers.String(), inner)
	}
}
