package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestAKeyIsRotatedWithoutAGap(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	made := f.call(t, "POST", "/v1/api_keys", `{"name":"shop","scopes":["write","read","read"]}`).is(t, 201).fields(t)
	fresh := made["api_key"].(string)
	require.True(t, strings.HasPrefix(fresh, made["prefix"].(string)))
	require.Equal(t, []any{"read", "write"}, made["scopes"])
	require.NotContains(t, made, "last_used_at")
	// Both are live.
	f.callAs(t, fresh, "POST", "/v1/payments", orderBody("o")).is(t, 201)
	f.order(t, "o2")

	listed := f.call(t, "GET", "/v1/api_keys", "").is(t, 200)
	require.NotContains(t, listed.Text, fresh)
	require.NotContains(t, listed.Text, "hash")
	item := listed.fields(t)["items"].([]any)[0].(map[string]any)
	require.Equal(t, made["id"], item["id"])
	require.NotEmpty(t, item["last_used_at"], "who rotates a key sees that it is used")

	path := fmt.Sprint("/v1/api_keys/", made["id"], "/revoke")
	first := f.call(t, "POST", path, "").is(t, 200)
	require.NotEmpty(t, first.fields(t)["revoked_at"])
	f.callAs(t, fresh, "GET", "/v1/payments", "").problem(t, 401, "unauthorized")
	require.Equal(t, first.Text, f.call(t, "POST", path, "{}").is(t, 200).Text, "revoked once")
	for _, table := range []string{"api_keys", "audit_log"} {
		require.Zero(t, f.Count(t, "SELECT count(*) FROM "+table+" r WHERE r::text LIKE '%' || $1 || '%'", fresh), "a key is kept nowhere")
	}
}

func TestAKeyIsRefusedThatNobodyCouldMean(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for body, code := range map[string]string{
		`{}`:                                   "scopes_invalid",
		`{"scopes":[]}`:                        "scopes_invalid",
		`{"scopes":null}`:                      "scopes_invalid",
		`{"scopes":["root"]}`:                  "scopes_invalid",
		`{"scopes":["read",""]}`:               "scopes_invalid",
		`{"scopes":"read"}`:                    "scopes_invalid",
		`{"scopes":["read"],"name":7}`:         "name_invalid",
		`{"scopes":["read"],"name":"a\u0000"}`: "name_invalid",
		`{"scopes":["read"],"name":"` + strings.Repeat("n", 65) + `"}`: "name_invalid",
	} {
		f.call(t, "POST", "/v1/api_keys", body).problem(t, 400, code)
	}
	for _, id := range []string{"0", "x", "9223372036854775808", "-1"} {
		f.call(t, "POST", "/v1/api_keys/"+id+"/revoke", "").problem(t, 404, "api_key_not_found")
	}
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM api_keys"))
}

func TestTheLastAdminKeyIsKept(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	own := fmt.Sprint("/v1/api_keys/", f.Count(t, "SELECT id FROM api_keys"), "/revoke")
	f.issue(t, tenant.Read, tenant.Write, tenant.Refund)
	f.call(t, "POST", own, "").problem(t, 409, "last_admin_key")
	f.call(t, "GET", "/v1/payments", "").is(t, 200)

	// Two admin keys that revoke each other at the same time: one of them stays.
	second, k := f.issue(t, tenant.Admin)
	replies := f.atOnce(t, 2, func(i int) *http.Request {
		r := f.request(t, "POST", []string{own, fmt.Sprint("/v1/api_keys/", k.ID, "/revoke")}[i], "")
		r.Header.Set("Authorization", "Bearer "+[]string{second, f.APIKey}[i])
		return r
	})
	require.Contains(t, []int{replies[0].StatusCode, replies[1].StatusCode}, 200)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL AND 'admin' = ANY (scopes)"))
}

func TestLiveKeysAreBounded(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	replies := f.atOnce(t, 25, func(int) *http.Request {
		r := f.request(t, "POST", "/v1/api_keys", `{"scopes":["read"]}`)
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		return r
	})
	refused := 0
	for _, r := range replies {
		if r.StatusCode != 201 {
			r.problem(t, 409, "too_many_api_keys")
			refused++
		}
	}
	require.Equal(t, 6, refused)
	require.Equal(t, 20, f.Count(t, "SELECT count(*) FROM api_keys"))
}

func TestWhatOperatorsDoIsOnRecord(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	prefix := f.APIKey[:10]
	f.order(t, "o")
	f.report(t, testhouse.Paid(t, "tx-1", "o", 1))
	f.report(t, testhouse.Paid(t, "tx-2", "o", 2))
	wrong, other := f.eventOf(t, "tx-1", "AMOUNT_MISMATCH"), f.eventOf(t, "tx-2", "AMOUNT_MISMATCH")
	before := f.Count(t, "SELECT count(*) FROM audit_log")
	ids := []string{
		f.call(t, "POST", wrong+"/replay", "").is(t, 200).Header.Get("X-Request-Id"),
		f.call(t, "POST", wrong+"/reject", `{"reason":"no such money"}`).is(t, 200).Header.Get("X-Request-Id"),
		f.call(t, "POST", other+"/suspense", `{"reason":"it came"}`).is(t, 200).Header.Get("X-Request-Id"),
		f.call(t, "PUT", "/v1/stock/book", `{"on_hand":5}`).is(t, 200).Header.Get("X-Request-Id"),
	}
	// What is refused did not happen.
	f.call(t, "POST", wrong+"/reject", `{"reason":"again"}`).is(t, 409)
	f.call(t, "PUT", "/v1/stock/book", `{"on_hand":5,"version":9}`).is(t, 409)
	f.call(t, "POST", "/v1/events/999999/replay", "").is(t, 404)

	page := f.call(t, "GET", "/v1/audit?limit=4", "").is(t, 200)
	want := []string{"event_replayed", "event_rejected", "event_booked_to_suspense", "stock_put"}
	for i, item := range page.fields(t)["items"].([]any) {
		record := item.(map[string]any)
		require.Equal(t, want[3-i], record["action"])
		require.Equal(t, prefix, record["actor"])
		require.Equal(t, ids[3-i], record["request_id"])
		require.NotEmpty(t, record["at"])
	}
	require.Contains(t, page.Text, "no such money")
	require.Contains(t, page.Text, `"on_hand 5"`)
	require.Equal(t, before+4, f.Count(t, "SELECT count(*) FROM audit_log"))

	// The rest of the list, in pages: tenant and account came first.
	last := f.call(t, "GET", "/v1/audit?limit=200", "").items(t, "action")
	require.Contains(t, last, "channel_account_added")
	require.Equal(t, "tenant_added", last[len(last)-1])
	require.Equal(t, "api_key_created", last[len(last)-2])
	require.Len(t, last, before+4)
	stranger, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	require.Len(t, f.callAs(t, stranger, "GET", "/v1/audit", "").items(t, "id"), 2)
}

func TestNobodyRewritesTheRecord(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	refused := func(db *pgxpool.Pool, sql string, args ...any) {
		_, err := db.Exec(t.Context(), sql, args...)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, sql)
		require.Equal(t, "42501", pg.Code, sql)
	}
	for _, db := range []*pgxpool.Pool{f.Owner, f.Engine, f.API} {
		for _, sql := range []string{"UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"} {
			refused(db, sql)
		}
	}
	// The API's role writes its transaction's tenant alone, and sees no key's hash at all.
	refused(f.API, "INSERT INTO audit_log (tenant_id, actor, action, target) VALUES ($1, 'a', 'b', 'c')", f.Tenant)
	refused(f.API, "SELECT hash FROM api_keys")
}

func TestAKeyThatAsksTooMuchWaitsAndOthersDoNot(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	srv := httptest.NewServer(api.Handler(api.Config{
		Orders: f.Orders, Entry: f.Entry, Books: f.Books, Accounts: f.Accounts, API: f.API, Engine: f.Engine, Log: f.Log,
		WorkflowURL: func(string) string { return "" },
		RateLimit:   api.RateLimit{PerSecond: 0.01, Burst: 3},
	}))
	t.Cleanup(srv.Close)
	f.URL = srv.URL
	for range 3 {
		f.call(t, "GET", "/v1/payments", "").is(t, 200)
	}
	refused := f.call(t, "POST", "/v1/payments", orderBody("o"))
	refused.problem(t, 429, "rate_limited")
	var wait int
	require.NoError(t, json.Unmarshal([]byte(refused.Header.Get("Retry-After")), &wait))
	require.Positive(t, wait)
	require.LessOrEqual(t, wait, 100)
	require.Zero(t, f.Count(t, "SELECT count(*) FROM payments"))
	second, _ := f.issue(t, tenant.Read)
	f.callAs(t, second, "GET", "/v1/payments", "").is(t, 200)
	// Callbacks have no key, and a channel is never told to wait.
	for range 5 {
		f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	}
}
