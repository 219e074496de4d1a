package api_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
)

// unknownKey looks like a key.
func unknownKey() string {
	secret := make([]byte, 32)
	rand.Read(secret)
	return "plk_" + base64.RawURLEncoding.EncodeToString(secret)
}

func TestWhatCannotBeAKeyCostsNoQueryAndAnUnknownOneCostsOne(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	revoked, k := f.issue(t, tenant.Read)
	var engine *asked
	f.Engine, engine = listening(t, f.EngineURL)
	f.serve(t, f.driver)
	unauthorized := func(apiKey string, queries int) {
		t.Helper()
		engine.take()
		f.callAs(t, apiKey, "GET", "/v1/payments", "").problem(t, 401, "unauthorized")
		require.Len(t, engine.take(), queries, apiKey)
	}
	whole := unknownKey()
	for _, apiKey := range []string{"x", "plk_", whole[:46], whole + "A", "PLK_" + whole[4:], "plk-" + whole[4:], whole[:46] + "+", whole[:46] + "=", strings.Repeat("A", 10_000)} {
		unauthorized(apiKey, 0)
	}
	unauthorized(whole, 1)
	unauthorized(whole, 0)

	// A key that is made now is known now, and one that is revoked is not from then on.
	f.callAs(t, revoked, "GET", "/v1/payments", "").is(t, 200)
	f.call(t, "POST", fmt.Sprint("/v1/api_keys/", k.ID, "/revoke"), "").is(t, 200)
	unauthorized(revoked, 1)
	unauthorized(revoked, 0)
	for range 3 {
		fresh, _ := f.issue(t, tenant.Read)
		unauthorized(unknownKey(), 1)
		f.callAs(t, fresh, "GET", "/v1/payments", "").is(t, 200)
	}
	f.requireNoError(t)
}

func TestAnAddressThatTriesManyKeysWaitsAndProvenKeysDoNot(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.call(t, "GET", "/v1/payments", "").is(t, 200)
	var engine *asked
	f.Engine, engine = listening(t, f.EngineURL)
	proven := f.APIKey
	f.serve(t, f.driver)
	f.callAs(t, proven, "GET", "/v1/payments", "").is(t, 200)
	engine.take()
	const tries = 400
	refused := 0
	for range tries {
		got := f.callAs(t, unknownKey(), "GET", "/v1/payments", "")
		if got.StatusCode == 401 {
			continue
		}
		got.problem(t, 429, "rate_limited")
		wait, err := strconv.Atoi(got.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, wait)
		refused++
	}
	require.Positive(t, refused)
	require.Len(t, engine.take(), tries-refused, "who has to wait costs no query")
	f.callAs(t, proven, "GET", "/v1/payments", "").is(t, 200)
	require.Positive(t, f.Logs.FilterMessage("an address asks with too many unknown API keys").Len())
}

func TestNewKeysDoNotLiftATenantsLimit(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	srv := httptest.NewServer(api.Handler(api.Config{
		Orders: f.Orders, Entry: f.Entry, Books: f.Books, Accounts: f.Accounts, API: f.API, Engine: f.Engine, Log: f.Log,
		WorkflowURL: func(string) string { return "" },
		RateLimit:   api.RateLimit{PerSecond: 0.0001, Burst: 2},
	}))
	t.Cleanup(srv.Close)
	f.URL = srv.URL
	taken := 0
	for range tenant.MaxLiveKeys + 1 {
		fresh, k := f.issue(t, tenant.Read)
		for range 2 { // a key's own burst
			if got := f.callAs(t, fresh, "GET", "/v1/payments", ""); got.StatusCode != 200 {
				got.problem(t, 429, "rate_limited")
				continue
			}
			taken++
		}
		require.NoError(t, database.InTx(t.Context(), f.Engine, func(tx pgx.Tx) error {
			_, err := tenant.RevokeKey(t.Context(), tx, f.Tenant, k.ID, true)
			return err
		}))
	}
	require.Equal(t, 2*tenant.MaxLiveKeys, taken)
	// Another tenant has its own.
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	f.callAs(t, other, "GET", "/v1/payments", "").is(t, 200)
}
