package api_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// serveWith serves the house as a second process would, whose memory is the Redis alone.
func (f *face) serveWith(t *testing.T, redisURL string) {
	t.Helper()
	box, err := sealed.New(f.MasterKey)
	require.NoError(t, err)
	shared, err := cache.NewRedis(redisURL, box, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	f.Entry = payment.NewEntry(f.Engine, f.Accounts, f.driver, f.Log, payment.DefaultPlan, f.Clock.Now)
	f.Entry.UseCache(shared)
	srv := httptest.NewServer(api.Handler(api.Config{
		Orders: f.Orders, Entry: f.Entry, Books: f.Books, Accounts: f.Accounts, API: f.API, Engine: f.Engine, Group: f.group(t),
		Transfers: f.Transfers, Answers: shared, Log: f.Log, WorkflowURL: func(string) string { return "" },
	}))
	t.Cleanup(srv.Close)
	f.URL = srv.URL
}

func TestNothingButSpeedDependsOnRedis(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartRedis(t.Context())
	if errors.Is(err, devstack.ErrNoRedis) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	raw := redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })

	f := newFace(t)
	f.serveWith(t, server.URL())
	paid := testhouse.Paid(t, "tx", "o", 9900)
	first := f.post(t, "k", "/v1/payments", orderBody("o")).is(t, 201)
	f.pay(t, "tx", "o", 9900)
	conflicts := 0
	story := func() {
		t.Helper()
		for range 3 {
			f.report(t, paid)
			f.post(t, "k", "/v1/payments", orderBody("o")).replayed(t, first)
			f.post(t, "k", "/v1/payments", orderBody("other")).problem(t, 422, "idempotency_key_reused")
		}
		conflicts++
		f.report(t, testhouse.Paid(t, "tx", "o", int64(conflicts)))
		require.Equal(t, conflicts, f.Count(t, "SELECT count(*) FROM channel_events WHERE outcome = 'CONFLICT'"))
		// New things are made as ever.
		order := fmt.Sprint("o-", conflicts)
		f.post(t, order, "/v1/payments", orderBody(order)).is(t, 201)
		f.pay(t, "tx-"+order, order, 9900)
		require.Equal(t, conflicts+1, f.Journals(t))
		require.Empty(t, f.driver.Take())
	}
	story()
	require.Eventually(t, func() bool {
		f.report(t, paid)
		f.post(t, "k", "/v1/payments", orderBody("o")).replayed(t, first)
		n, err := raw.DBSize(t.Context()).Result()
		return err == nil && n >= 2
	}, 20*time.Second, 20*time.Millisecond, "what is final is remembered")
	// Another process of the same house.
	f.serveWith(t, server.URL())
	story()

	require.NoError(t, raw.FlushAll(t.Context()).Err())
	story()
	keys, err := raw.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		require.NoError(t, raw.Set(t.Context(), key, "garbage", 0).Err())
	}
	story()
	server.Pause()
	story()
	server.Resume()
	story()
	server.Kill()
	story()
	f.RequireInvariants(t)
	f.requireNoError(t)

	// What one database knew is not believed of another, with the same numbers, keys and master key.
	require.NoError(t, server.Start(t.Context()))
	for _, run := range []int{1, 2} {
		g := newFace(t)
		g.MasterKey = f.MasterKey
		g.serveWith(t, server.URL())
		require.Equal(t, f.Account.ID, g.Account.ID)
		g.post(t, "k", "/v1/payments", orderBody("o")).is(t, 201)
		g.pay(t, "tx", "o", 9900)
		for range 3 {
			g.report(t, paid)
			require.Equal(t, 1, g.Journals(t), "run %d", run)
		}
	}
}
