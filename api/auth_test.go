package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestEveryMerchantRouteWantsOneKnownKey(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	headers := map[string][]string{
		"none":             nil,
		"empty":            {""},
		"no scheme":        {f.APIKey},
		"only a scheme":    {"Bearer"},
		"an empty key":     {"Bearer "},
		"another scheme":   {"Basic " + f.APIKey},
		"an unknown key":   {"Bearer plk_unknown"},
		"half a key":       {"Bearer " + f.APIKey[:20]},
		"a key and more":   {"Bearer " + f.APIKey + "x"},
		"two spaces":       {"Bearer  " + f.APIKey},
		"two keys in one":  {"Bearer " + f.APIKey + ", Bearer " + f.APIKey},
		"two headers":      {"Bearer " + f.APIKey, "Bearer " + f.APIKey},
		"a key with bytes": {"Bearer \xff" + f.APIKey},
		"the tenant's id":  {"Bearer " + f.Tenant},
	}
	for _, o := range merchantOperations() {
		for name, values := range headers {
			t.Run(o.Method+" "+o.Path+" "+name, func(t *testing.T) {
				r := f.request(t, o.Method, parameterPattern.ReplaceAllString(o.Path, "1"), exampleBody(t, o))
				if values != nil {
					r.Header["Authorization"] = values
				}
				got := f.send(t, r)
				got.problem(t, 401, "unauthorized")
				require.Equal(t, `Bearer realm="paylatch"`, got.Header.Get("WWW-Authenticate"))
			})
		}
	}
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM payments"))
}

func TestTheSchemeOfAKeyIsReadInAnyCase(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, scheme := range []string{"bearer", "BEARER"} {
		r := f.request(t, "GET", "/v1/payments", "")
		r.Header.Set("Authorization", scheme+" "+f.APIKey)
		f.send(t, r).is(t, 200)
	}
}

// merchantOperations are those that want an API key.
func merchantOperations() (list []operation) {
	for _, o := range operations() {
		if strings.HasPrefix(o.Path, "/v1/") {
			list = append(list, o)
		}
	}
	return list
}

// issue makes a key of the house's tenant.
func (f *face) issue(t *testing.T, scopes ...tenant.Scope) (apiKey string, k tenant.Key) {
	t.Helper()
	apiKey, k, err := tenant.IssueKey(t.Context(), f.Engine, f.Tenant, "test", scopes...)
	require.NoError(t, err)
	return apiKey, k
}

func TestNoRouteTakesARevokedKey(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	second, _ := f.issue(t, tenant.Admin)
	f.callAs(t, second, "GET", "/v1/payments", "").is(t, 200)
	revoked, k := f.issue(t, tenant.Admin)
	f.call(t, "POST", fmt.Sprint("/v1/api_keys/", k.ID, "/revoke"), "").is(t, 200)
	before := f.Count(t, "SELECT count(*) FROM audit_log")
	for _, o := range merchantOperations() {
		f.callAs(t, revoked, o.Method, parameterPattern.ReplaceAllString(o.Path, "1"), exampleBody(t, o)).problem(t, 401, "unauthorized")
	}
	require.Equal(t, before, f.Count(t, "SELECT count(*) FROM audit_log"))
	require.Zero(t, f.Count(t, "SELECT count(*) FROM payments"))
	f.callAs(t, second, "GET", "/v1/payments", "").is(t, 200)
}

func TestEveryRouteWantsItsScope(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	keys, narrow := map[string]string{}, map[string]string{}
	for _, scope := range tenant.Scopes() {
		keys[string(scope)], _ = f.issue(t, scope)
		var others []tenant.Scope
		for _, other := range tenant.Scopes() {
			if other != scope && other != tenant.Admin {
				others = append(others, other)
			}
		}
		narrow[string(scope)], _ = f.issue(t, others...)
	}
	audited := f.Count(t, "SELECT count(*) FROM audit_log")
	for _, o := range merchantOperations() {
		path := parameterPattern.ReplaceAllString(o.Path, "1")
		f.callAs(t, narrow[o.scope(t)], o.Method, path, exampleBody(t, o)).problem(t, 403, "scope_missing")
	}
	require.Equal(t, audited, f.Count(t, "SELECT count(*) FROM audit_log"))
	require.Zero(t, f.Count(t, "SELECT (SELECT count(*) FROM payments) + (SELECT count(*) FROM journals) + (SELECT count(*) FROM stock)"))
	for _, o := range merchantOperations() {
		path := parameterPattern.ReplaceAllString(o.Path, "1")
		for _, scope := range []string{o.scope(t), "admin"} {
			got := f.callAs(t, keys[scope], o.Method, path, exampleBody(t, o))
			require.NotContains(t, []int{401, 403, 500}, got.StatusCode, "%s %s with %s: %s", o.Method, o.Path, scope, got.Text)
		}
	}
}

func TestWhatBelongsToAnotherTenantDoesNotExist(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	mine := f.whole(t)
	checked := 0
	for _, o := range merchantOperations() {
		if !strings.Contains(o.Path, "{") || o.Method == http.MethodPut {
			continue // a put makes what is not there: it has a test of its own
		}
		path := pathOf(t, o, mine)
		before := f.call(t, "GET", "/v1/payments/o", "").Text
		f.callAs(t, other, o.Method, path, exampleBody(t, o)).is(t, 404)
		require.Equal(t, before, f.call(t, "GET", "/v1/payments/o", "").Text)
		// It is there for its owner: the 404 above says something.
		require.NotEqual(t, http.StatusNotFound, f.call(t, o.Method, path, exampleBody(t, o)).StatusCode, path)
		checked++
	}
	require.GreaterOrEqual(t, checked, 13)

	for _, list := range []string{"/v1/payments", "/v1/payments?state=SHIPPED", "/v1/payments?channel=standard", "/v1/events", "/v1/events?out_trade_no=o", "/v1/accounts/merchant/entries", "/v1/shares", "/v1/refunds", "/v1/refunds?out_trade_no=o"} {
		require.Equal(t, map[string]any{"items": []any{}}, f.callAs(t, other, "GET", list, "").is(t, 200).fields(t), list)
	}
	require.Equal(t, "0", fmt.Sprint(f.callAs(t, other, "GET", "/v1/accounts/merchant", "").fields(t)["balance"]))

	// Neither the number nor the account is taken for the other tenant.
	f.callAs(t, other, "POST", "/v1/payments", with("channel", `"standard","account":"`+f.Account.Name+`"`)).problem(t, 404, "channel_account_not_found")
	f.callAs(t, other, "POST", "/v1/payments", orderBody("o")).is(t, 201)
	require.Equal(t, []any{"PENDING"}, f.callAs(t, other, "GET", "/v1/payments", "").items(t, "state"))
	require.Len(t, f.call(t, "GET", "/v1/payments", "").items(t, "state"), 1)
	// And a report to this tenant's account is none about the other's order of that number.
	f.report(t, testhouse.Paid(t, "tx-2", "o", 9900))
	require.Equal(t, []payment.Outcome{payment.SecondPayment}, f.driver.Book(t, f.Books))
	require.Equal(t, []any{"PENDING"}, f.callAs(t, other, "GET", "/v1/payments", "").items(t, "state"))
	f.RequireInvariants(t)
}

func TestAnotherTenantCannotReplayAnEventEvenUnseen(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	path := f.eventOf(t, "tx", "UNKNOWN_ORDER")
	// The order comes by a way that does not look for events: a replay would have an effect now.
	_, _, err = f.Orders.Create(t.Context(), f.Tenant, testhouse.Order("o", 9900), f.Clock.Now())
	require.NoError(t, err)
	f.callAs(t, other, "POST", path+"/replay", "").problem(t, 404, "event_not_found")
	require.Equal(t, "PARKED", f.call(t, "GET", path, "").fields(t)["state"])
	require.Empty(t, f.driver.Take())
}
