package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel/alipay"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// keyed makes a merchant's POST under an idempotency key, with further headers.
func (f *face) keyed(t *testing.T, key, path, body string, headers ...string) *http.Request {
	t.Helper()
	r := f.request(t, "POST", path, body)
	r.Header.Set("Authorization", "Bearer "+f.APIKey)
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (f *face) post(t *testing.T, key, path, body string, headers ...string) reply {
	t.Helper()
	return f.send(t, f.keyed(t, key, path, body, headers...))
}

func (f *face) keys(t *testing.T) int {
	t.Helper()
	return f.Count(t, "SELECT count(*) FROM idempotency_keys")
}

func TestEveryPostRouteHeedsItsKey(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	checked := 0
	for _, o := range merchantOperations() {
		if o.Method != http.MethodPost {
			continue
		}
		path := parameterPattern.ReplaceAllString(o.Path, "1")
		f.post(t, "k k", path, exampleBody(t, o)).problem(t, 400, "idempotency_key_malformed")
		// Somebody has used the key for another request of this route, and works on it.
		route := "POST " + strings.NewReplacer("{", ":", "}", "").Replace(o.Path)
		_, err := f.Owner.Exec(t.Context(), `
INSERT INTO idempotency_keys (tenant_id, route, key, fingerprint, token, lease_until, expires_at)
VALUES ($1, $2, 'k', sha256('x'), decode(repeat('00', 16), 'hex'), now() + interval '1 hour', now() + interval '1 hour')`, f.Tenant, route)
		require.NoError(t, err)
		f.post(t, "k", path, exampleBody(t, o)).problem(t, 422, "idempotency_key_reused")

		_, err = f.Owner.Exec(t.Context(), "DELETE FROM idempotency_keys")
		require.NoError(t, err)
		checked++
	}
	require.GreaterOrEqual(t, checked, 12)
	require.Zero(t, f.Count(t, "SELECT (SELECT count(*) FROM payments) + (SELECT count(*) FROM journals) + (SELECT count(*) FROM transfers)"))
	f.requireNoError(t)
}

func TestAFinishedRequestIsAnsweredAsTheFirstTime(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	f.put(t, "book", 1)
	f.order(t, "paid")
	f.pay(t, "tx", "paid", 9900)
	f.report(t, testhouse.Paid(t, "tx-1", "paid", 1))
	f.report(t, testhouse.Paid(t, "tx-2", "paid", 2))
	one, two := f.eventOf(t, "tx-1", "AMOUNT_MISMATCH"), f.eventOf(t, "tx-2", "AMOUNT_MISMATCH")
	wide := `{"journals":[{"key":"j","lines":[{"account":"a","currency":"CNY","amount":-5},{"account":"b","currency":"CNY","amount":5}]}]}`
	firsts := map[string]reply{}
	requests := []struct {
		path, body string
		status     int
	}{
		{"/v1/payments", orderBody("o"), 201},
		{"/v1/payments", with("items", `[{"sku":"book","quantity":2}],"metadata":{"n":9007199254740993}`), 409},
		{"/v1/payments/paid/ship", "", 200},
		{"/v1/payments/paid/complete", "{}", 200},
		{"/v1/payments/paid/close", "", 409},
		{"/v1/accounts", `{"code":"c","currency":"CNY"}`, 201},
		{"/v1/journals", wide, 200},
		{"/v1/transfers", move("a", "b", 1), 201},
		{"/v1/transfers", move("a", "b", 1000), 409},
		{one + "/replay", "", 200},
		{one + "/reject", `{"reason":"no"}`, 200},
		{two + "/suspense", `{"reason":"yes"}`, 200},
		{two + "/suspense", `{"reason":"yes, again"}`, 409},
	}
	for i, r := range requests {
		key := fmt.Sprint("k-", i)
		first := f.post(t, key, r.path, r.body).is(t, r.status)
		require.Empty(t, first.Header.Get("Idempotency-Replayed"), r.path)
		firsts[key] = first
	}
	// Things change, and the answers do not.
	f.put(t, "book", 100)
	f.account(t, "rich", 5000)
	f.transfer(t, "more", move("rich", "a", 5000)).is(t, 201)
	before := f.Journals(t)
	for i, r := range requests {
		key := fmt.Sprint("k-", i)
		again := f.post(t, `"`+key+`"`, r.path, r.body)
		again.replayed(t, firsts[key])
		require.Equal(t, firsts[key].Header.Get("Content-Type"), again.Header.Get("Content-Type"))
		require.NotEqual(t, firsts[key].Header.Get("X-Request-Id"), again.Header.Get("X-Request-Id"))
		f.post(t, key, r.path+"?x=1", r.body).problem(t, 422, "idempotency_key_reused")
	}
	require.Equal(t, before, f.Journals(t))
	require.Equal(t, 2, f.Count(t, "SELECT count(*) FROM payments"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestAnAPIKeyIsShownOnceAlsoToARepeat(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	first := f.post(t, "k", "/v1/api_keys", `{"scopes":["read"]}`).is(t, 201).fields(t)
	require.NotEmpty(t, first["api_key"])
	again := f.post(t, "k", "/v1/api_keys", `{"scopes":["read"]}`).is(t, 201)
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
	apiKey := first["api_key"].(string)
	delete(first, "api_key")
	require.Equal(t, first, again.fields(t))
	require.Equal(t, 2, f.Count(t, "SELECT count(*) FROM api_keys"))
	require.Zero(t, f.Count(t, "SELECT count(*) FROM idempotency_keys WHERE position(convert_to($1, 'UTF8') IN body) > 0", apiKey))
}

func TestOnlyWhatIsSaidDifferentlyIsAnotherRequest(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	const body = `{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":{"x":1,"y":[1,2]},"n":9007199254740993,"t":"\u00e9"}}`
	first := f.post(t, "k", "/v1/payments", body).is(t, 201)
	for _, same := range []string{
		body,
		"\r\n\t {\"currency\" : \"CNY\",\n \"metadata\":{\"t\":\"é\",\"n\":9007199254740993, \"a\":{\"y\":[1, 2],\"x\":1}}, \"amount\":9900,\"out_trade_no\":\"o\" } \n",
	} {
		f.post(t, "k", "/v1/payments", same).replayed(t, first)
	}
	require.Contains(t, first.Text, "9007199254740993")
	for name, other := range map[string]string{
		"a big number, one less":  strings.Replace(body, "740993", "740992", 1),
		"the same number, longer": strings.Replace(body, "9007199254740993", "9007199254740993.0", 1),
		"a list in another order": strings.Replace(body, "[1,2]", "[2,1]", 1),
		"a number as text":        strings.Replace(body, "9007199254740993", `"9007199254740993"`, 1),
		"an amount":               strings.Replace(body, "9900", "9901", 1),
		"another order":           strings.Replace(body, `"o"`, `"o2"`, 1),
		"a null":                  strings.Replace(body, `"currency"`, `"items":null,"currency"`, 1),
		"nothing":                 `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			f.post(t, "k", "/v1/payments", other).problem(t, 422, "idempotency_key_reused")
		})
	}
	for _, path := range []string{"/v1/payments?a=1", "/v1/payments?a=&b="} {
		f.post(t, "k", path, body).problem(t, 422, "idempotency_key_reused")
	}
	// What cannot be read is neither.
	f.post(t, "k", "/v1/payments", body+"{").problem(t, 400, "json_malformed")
	f.post(t, "k", "/v1/payments", strings.Replace(body, `"amount"`, `"amount":1,"amount"`, 1)).problem(t, 400, "json_malformed")
	f.post(t, "k", "/v1/payments", strings.Repeat(" ", 1<<20)+body).problem(t, 413, "body_too_large")
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM payments"))
}

func TestAPathParameterIsAPartOfTheRequestAndTheRouteIsTheKeysScope(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, order := range []string{"o1", "o2"} {
		f.order(t, order)
		f.pay(t, "tx-"+order, order, 9900)
	}
	first := f.post(t, "k", "/v1/payments/o1/ship", "").is(t, 200)
	f.post(t, "k", "/v1/payments/o2/ship", "").problem(t, 422, "idempotency_key_reused")
	require.Equal(t, "PAID", string(f.State(t, "o2")))
	// Another route is another scope.
	f.post(t, "k", "/v1/payments/o1/complete", "").is(t, 200)
	f.post(t, "k", "/v1/payments", orderBody("o3")).is(t, 201)
	f.post(t, "k", "/v1/payments/o1/ship", "").replayed(t, first)
	// Escaped or not, it is the same path.
	f.post(t, "k", "/v1/payments/o%31/ship", "").replayed(t, first)
}

func TestKeysOfTwoTenantsAreTwoKeys(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	mine := f.post(t, "k", "/v1/payments", orderBody("o")).is(t, 201)
	theirs := f.post(t, "k", "/v1/payments", orderBody("o"), "Authorization", "Bearer "+other).is(t, 201)
	require.Empty(t, theirs.Header.Get("Idempotency-Replayed"))
	require.Contains(t, theirs.Text, f.Tenant+"-other")
	f.post(t, "k", "/v1/payments", orderBody("o")).replayed(t, mine)
	f.post(t, "k2", "/v1/payments", orderBody("o2")).is(t, 201)
	f.post(t, "k2", "/v1/payments", orderBody("theirs"), "Authorization", "Bearer "+other).is(t, 201)
	// A second key of the tenant's own is the same caller; one that may not write is not even told.
	second, _ := f.issue(t, tenant.Write)
	f.post(t, "k", "/v1/payments", orderBody("o"), "Authorization", "Bearer "+second).replayed(t, mine)
	reader, _ := f.issue(t, tenant.Read)
	f.post(t, "k", "/v1/payments", orderBody("o"), "Authorization", "Bearer "+reader).problem(t, 403, "scope_missing")
}

func TestWhatWasRefusedBeforeAnyEffectMayComeAgainUnderItsKey(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		status     int
	}{
		"400":           {"/v1/payments", with("amount", "-1"), nil, 400},
		"404":           {"/v1/payments", with("items", `[{"sku":"none","quantity":1}]`), nil, 404},
		"415":           {"/v1/payments", orderBody("o"), []string{"Content-Type", "text/plain"}, 415},
		"422":           {"/v1/accounts", `{"code":"merchant","currency":"CNY"}`, nil, 422},
		"404 of a path": {"/v1/payments/none/ship", "", nil, 404},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := f.post(t, "k", c.path, c.body, c.headers...).is(t, c.status)
				require.Empty(t, got.Header.Get("Idempotency-Replayed"))
			}
			require.Zero(t, f.keys(t))
		})
	}
	f.post(t, "k", "/v1/payments", orderBody("o")).is(t, 201)
	f.post(t, "k", "/v1/accounts", `{"code":"c","currency":"CNY"}`).is(t, 201)
}

func TestAFailureOfOursIsTriedAnewByTheSameRequestAlone(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	// It fails after its effect, in a panic.
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	flow := and(move("a", "b", 1), `"mode":"tcc"`)
	f.broken.Store(true)
	f.post(t, "panic", "/v1/transfers", flow).problem(t, 500, "internal")
	f.broken.Store(false)
	require.Equal(t, 1, f.transfers(t))
	f.post(t, "panic", "/v1/transfers", move("a", "b", 2)).problem(t, 422, "idempotency_key_reused")
	again := f.post(t, "panic", "/v1/transfers", flow).is(t, 201)
	require.Equal(t, again.Text, f.post(t, "panic", "/v1/transfers", flow).is(t, 201).Text)
	require.Equal(t, 1, f.transfers(t))

	// It fails within its effect's transaction, in a panic.
	f.broken.Store(true)
	f.post(t, "within", "/v1/payments", orderBody("o")).problem(t, 500, "internal")
	f.broken.Store(false)
	require.Zero(t, f.Count(t, "SELECT count(*) FROM payments"))
	f.post(t, "within", "/v1/payments", orderBody("another")).problem(t, 422, "idempotency_key_reused")
	first := f.post(t, "within", "/v1/payments", orderBody("o")).is(t, 201)
	require.Empty(t, first.Header.Get("Idempotency-Replayed"))
	f.post(t, "within", "/v1/payments", orderBody("o")).replayed(t, first)

	// It fails before its effect.
	_, err := f.Owner.Exec(t.Context(), "ALTER TABLE payments RENAME TO elsewhere")
	require.NoError(t, err)
	f.post(t, "early", "/v1/payments", orderBody("o2")).problem(t, 500, "internal")
	_, err = f.Owner.Exec(t.Context(), "ALTER TABLE elsewhere RENAME TO payments")
	require.NoError(t, err)
	f.post(t, "early", "/v1/payments", orderBody("o3")).problem(t, 422, "idempotency_key_reused")
	f.post(t, "early", "/v1/payments", orderBody("o2")).is(t, 201)
	require.Equal(t, 2, f.Count(t, "SELECT count(*) FROM payments"))
}

func TestACallerThatHangsUpIsAnsweredWhenItAsksAgain(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	release := f.hold(t, "payments")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(f.keyed(t, "k", "/v1/payments", orderBody("o")).WithContext(ctx))
		gone <- err
	}()
	require.Eventually(t, func() bool { return f.keys(t) == 1 }, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Eventually(t, func() bool { return f.Logs.FilterMessage("the caller hung up").Len() == 1 }, 20*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		ended := f.Logs.FilterMessage("request").FilterField(zap.String("route", "/v1/payments")).FilterField(zap.Int("status", 499))
		return ended.Len() == 1
	}, 20*time.Second, 5*time.Millisecond)
	release()
	first := f.post(t, "k", "/v1/payments", orderBody("o"))
	require.Contains(t, []int{200, 201}, first.StatusCode, first.Text)
	f.post(t, "k", "/v1/payments", orderBody("o")).replayed(t, first)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM payments"))
	f.requireNoError(t) // a caller that is gone is no fault of ours
}

// hold keeps everybody from a table until it is released.
func (f *face) hold(t *testing.T, table string) (release func()) {
	t.Helper()
	tx, err := f.Owner.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+pgx.Identifier{table}.Sanitize()+" IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	held := true
	release = func() {
		if held {
			held = false
			require.NoError(t, tx.Rollback(context.Background()))
		}
	}
	t.Cleanup(release)
	return release
}

func TestWhileTheFirstIsWorkedOn(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.connect(t)
	release := f.hold(t, "payments")
	answers := make(chan reply, 2)
	ask := func() {
		response, err := http.DefaultClient.Do(f.keyed(t, "k", "/v1/payments", orderBody("o")))
		if err != nil {
			t.Error(err)
		}
		answers <- readReply(t, response)
	}
	go ask()
	require.Eventually(t, func() bool { return f.keys(t) == 1 }, 20*time.Second, 5*time.Millisecond)

	// Another request is refused, and the same one waits, or does not want to, or gives up in the end.
	f.post(t, "k", "/v1/payments", orderBody("another")).problem(t, 422, "idempotency_key_reused")
	async := f.post(t, "k", "/v1/payments", orderBody("o"), "Prefer", "respond-async")
	async.problem(t, 202, "idempotency_key_in_progress")
	require.Equal(t, []string{"1", "respond-async"}, []string{async.Header.Get("Retry-After"), async.Header.Get("Preference-Applied")})
	given := f.post(t, "k", "/v1/payments", orderBody("o"))
	given.problem(t, 409, "idempotency_key_in_progress")
	require.Equal(t, "1", given.Header.Get("Retry-After"))
	go ask()
	require.Zero(t, f.Count(t, "SELECT count(*) FROM journals"))
	release()
	first, twin := <-answers, <-answers
	first.is(t, 201)
	require.Equal(t, first.Text, twin.is(t, 201).Text)
	require.ElementsMatch(t, []string{"", "true"}, []string{first.Header.Get("Idempotency-Replayed"), twin.Header.Get("Idempotency-Replayed")})
	f.post(t, "k", "/v1/payments", orderBody("o"), "Prefer", "respond-async").is(t, 201)
}

func TestFiftyFirstUsesOfAKeyAtOnceAreOneRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, body, effects string }{
		"payment": {"/v1/payments", orderBody("o"), "SELECT count(*) FROM payments"},
		"journal": {"/v1/journals", `{"journals":[{"key":"j","lines":[{"account":"a","currency":"CNY","amount":-5},{"account":"b","currency":"CNY","amount":5}]}]}`, "SELECT count(*) FROM journals WHERE key = 'posting:j'"},
		"key":     {"/v1/api_keys", `{"name":"n","scopes":["read"]}`, "SELECT count(*) FROM api_keys WHERE name = 'n'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.account(t, "a", 500)
			f.account(t, "b", 0)
			kept := f.keys(t)
			replies := f.atOnce(t, 50, func(int) *http.Request { return f.keyed(t, "k", c.path, c.body) })
			made := slices.IndexFunc(replies, func(r reply) bool { return r.Header.Get("Idempotency-Replayed") == "" })
			require.GreaterOrEqual(t, made, 0)
			for i, r := range replies {
				require.Equal(t, replies[made].StatusCode, r.StatusCode, r.Text)
				require.Less(t, r.StatusCode, 300)
				if i != made {
					require.Equal(t, "true", r.Header.Get("Idempotency-Replayed"))
					if name != "key" {
						require.Equal(t, replies[made].Text, r.Text)
					}
				}
			}
			require.Equal(t, 1, f.Count(t, c.effects))
			require.Equal(t, kept+1, f.keys(t))
			f.RequireInvariants(t)
			f.requireNoError(t)
		})
	}
}

func TestTwoBodiesAtOnceUnderOneKeyAreOneEffectAndARefusal(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	body := func(n int) string {
		return fmt.Sprintf(`{"journals":[{"key":"j%d","lines":[{"account":"a","currency":"CNY","amount":-%d},{"account":"b","currency":"CNY","amount":%d}]}]}`, n, n, n)
	}
	for round := range 5 {
		before := f.Journals(t)
		replies := f.atOnce(t, 2, func(i int) *http.Request {
			return f.keyed(t, fmt.Sprint("k-", round), "/v1/journals", body(2*round+i+1))
		})
		if replies[0].StatusCode != 200 {
			slices.Reverse(replies)
		}
		require.Equal(t, []any{"POSTED"}, replies[0].items(t, "state"))
		replies[1].problem(t, 422, "idempotency_key_reused")
		require.Equal(t, before+1, f.Journals(t), "the refused one left no journal")
	}
	f.RequireInvariants(t)
}

func TestAKeyMeansNothingWhereNothingIsMade(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, value := range []string{"k", "", "k k", `"`} {
		r := f.request(t, "GET", "/v1/payments", "")
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		r.Header.Set("Idempotency-Key", value)
		f.send(t, r).is(t, 200)
	}
	for level := range 2 {
		r := f.request(t, "PUT", "/v1/stock/book", fmt.Sprintf(`{"on_hand":%d}`, level))
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		r.Header.Set("Idempotency-Key", "k")
		require.Equal(t, json.Number(fmt.Sprint(level)), f.send(t, r).is(t, 200).fields(t)["on_hand"])
	}
	require.Zero(t, f.keys(t))
}

func TestAnAnswerThatIsNotTheLastWordIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	gateway := simulatedAlipay(t, f)
	body := strings.TrimSuffix(orderBody("o"), "}") + `,"channel":"alipay","method":"qr"}`
	// Nobody announces the order yet.
	first := f.post(t, "k", "/v1/payments", body).is(t, 201)
	require.Equal(t, "PENDING", first.fields(t)["prepay_state"])
	again := f.post(t, "k", "/v1/payments", body).is(t, 200)
	require.Empty(t, again.Header.Get("Idempotency-Replayed"))
	f.post(t, "k", "/v1/payments", orderBody("o")).problem(t, 422, "idempotency_key_reused")
	_, err := f.Engine.Exec(t.Context(), "UPDATE payments SET prepay_state = 'READY', channel_data = $1 WHERE out_trade_no = 'o'", `{"qr_code":"`+gateway+`"}`)
	require.NoError(t, err)
	ready := f.post(t, "k", "/v1/payments", body).is(t, 200)
	require.Equal(t, "READY", ready.fields(t)["prepay_state"])
	require.Empty(t, ready.Header.Get("Idempotency-Replayed"))
	f.post(t, "k", "/v1/payments", body).replayed(t, ready)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM payments"))
}

// simulatedAlipay gives the tenant an account at a simulated Alipay, and the address of that.
func simulatedAlipay(t *testing.T, f *face) string {
	t.Helper()
	s := simulated.New()
	gateway := httptest.NewServer(s.Handler())
	t.Cleanup(gateway.Close)
	t.Cleanup(s.Core().Close)
	require.NoError(t, f.Accounts.Add(t.Context(), f.Tenant, alipay.Name, f.Tenant, s.Config(gateway.URL)))
	return gateway.URL
}

func TestAJournalWhoseFateIsUnknownIsNotTheLastWord(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{
		"one":  journals(journal("j", "a", "b", 5)),
		"many": journals(journal("j", "a", "b", 5), journal("j2", "funding", "b", 5)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.account(t, "a", 500)
			f.account(t, "b", 0)
			before := f.Journals(t)
			_, err := f.Owner.Exec(t.Context(), "ALTER TABLE journals RENAME TO elsewhere")
			require.NoError(t, err)
			first := f.post(t, "k", "/v1/journals", list).is(t, 200)
			require.Contains(t, first.items(t, "state"), "UNKNOWN")
			_, err = f.Owner.Exec(t.Context(), "ALTER TABLE elsewhere RENAME TO journals")
			require.NoError(t, err)
			require.Equal(t, before, f.Journals(t))

			// The key still names this request alone.
			f.post(t, "k", "/v1/journals", journals(journal("j3", "a", "b", 5))).problem(t, 422, "idempotency_key_reused")
			again := f.post(t, "k", "/v1/journals", list).is(t, 200)
			require.Empty(t, again.Header.Get("Idempotency-Replayed"))
			require.NotContains(t, again.items(t, "state"), "UNKNOWN")
			require.Contains(t, again.items(t, "state"), "POSTED")
			f.post(t, "k", "/v1/journals", list).replayed(t, again)
			f.RequireInvariants(t)
		})
	}
}

func TestAJournalOfARequestThatWasTakenOverIsNotRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	before := f.Journals(t)
	release := f.hold(t, "journals")
	answers := make(chan reply, 1)
	go func() {
		response, err := http.DefaultClient.Do(f.keyed(t, "k", "/v1/journals", journals(journal("j", "a", "b", 5))))
		if err != nil {
			t.Error(err)
		}
		answers <- readReply(t, response)
	}()
	require.Eventually(t, func() bool { return f.Count(t, "SELECT count(*) FROM idempotency_keys WHERE status IS NULL") == 1 }, 20*time.Second, 5*time.Millisecond)
	_, err := f.Owner.Exec(t.Context(), "UPDATE idempotency_keys SET token = decode(repeat('00', 16), 'hex') WHERE status IS NULL")
	require.NoError(t, err)
	release()
	require.Equal(t, []any{"UNKNOWN"}, (<-answers).items(t, "state"), "who took the request over posts it")
	require.Equal(t, before, f.Journals(t))
}
