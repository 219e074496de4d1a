package idempotency_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/idempotency"
)

// spy tells what is put into a cache, and for how long.
type spy struct {
	cache.Cache
	puts []time.Duration
}

func (s *spy) Put(ctx context.Context, key cache.Key, value []byte, ttl time.Duration) {
	s.puts = append(s.puts, ttl)
	s.Cache.Put(ctx, key, value, ttl)
}

func TestAKeptAnswerIsGivenAgainWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := &spy{Cache: cache.NewMemory(100)}
	h.Store = idempotency.NewStore(h.API, time.Hour, s)
	gone, err := database.Open("postgres://nobody@127.0.0.1:1/none", 1)
	require.NoError(t, err)
	t.Cleanup(gone.Close)
	alone := house{h.Database, idempotency.NewStore(gone, time.Hour, s)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	away := func(k idempotency.Key) {
		t.Helper()
		_, _, err := alone.Begin(ctx, k, request, 0)
		require.Error(t, err)
		require.NotErrorIs(t, err, idempotency.ErrReused)
	}
	k := key
	k.Life = "1"

	// Nothing is remembered before there is an answer: a claim is never more than a row.
	claim := h.claim(t, k, request)
	away(k)
	h.refused(t, k, request, idempotency.ErrInProgress)
	h.refused(t, k, another, idempotency.ErrReused)
	require.Empty(t, s.puts)
	require.NoError(t, claim.Finish(t.Context(), answered))
	require.Equal(t, answered, alone.answer(t, k, request))
	alone.refused(t, k, another, idempotency.ErrReused)
	require.Len(t, s.puts, 1)
	require.InDelta(t, time.Hour.Seconds(), s.puts[0].Seconds(), 600)
	require.LessOrEqual(t, s.puts[0], time.Hour)

	// Another tenant, route, key, or life of the database is another question.
	for _, other := range []idempotency.Key{
		{Tenant: "other", Route: k.Route, Key: k.Key, Life: k.Life}, {Tenant: k.Tenant, Route: "POST /x", Key: k.Key, Life: k.Life},
		{Tenant: k.Tenant, Route: k.Route, Key: "k2", Life: k.Life}, {Tenant: k.Tenant, Route: k.Route, Key: k.Key, Life: "2"}, key,
	} {
		away(other)
	}
	require.Equal(t, answered, h.answer(t, key, request), "the row is the truth")
	require.Len(t, s.puts, 1)
	k.Life = "2"
	require.Equal(t, answered, h.answer(t, k, request))
	require.Len(t, s.puts, 2)
	require.LessOrEqual(t, s.puts[1], time.Hour)
	require.Equal(t, answered, alone.answer(t, k, request))
}

func TestAnAnswerThatIsNotCommittedIsNotRemembered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := &spy{Cache: cache.NewMemory(100)}
	h.Store = idempotency.NewStore(h.API, time.Hour, s)
	k := key
	k.Life = "1"
	lost := h.claim(t, k, request)
	h.lapse(t)
	next := h.claim(t, k, request)
	require.NoError(t, lost.Finish(t.Context(), idempotency.Answer{Status: 200, Body: []byte("lost")}))
	require.Empty(t, s.puts)
	require.NoError(t, database.InTx(next.Context(t.Context()), h.Engine, func(tx pgx.Tx) error {
		return idempotency.Complete(next.Context(t.Context()), tx, answered)
	}))
	require.NoError(t, next.Finish(t.Context(), idempotency.Answer{Status: 200, Body: []byte("with a secret")}))
	require.Empty(t, s.puts, "what was answered is not what is kept")
	require.Equal(t, answered, h.answer(t, k, request))
	require.Len(t, s.puts, 1)
	require.Equal(t, answered, h.answer(t, k, request))

	// What is answered is what was kept: it is remembered, and not written twice.
	k.Key = "another"
	claim := h.claim(t, k, request)
	require.NoError(t, database.InTx(claim.Context(t.Context()), h.Engine, func(tx pgx.Tx) error {
		return idempotency.Complete(claim.Context(t.Context()), tx, answered)
	}))
	require.Len(t, s.puts, 1, "not before the commit")
	_, err := h.Owner.Exec(t.Context(), "ALTER TABLE idempotency_keys RENAME TO elsewhere")
	require.NoError(t, err)
	require.NoError(t, claim.Finish(t.Context(), answered))
	require.Len(t, s.puts, 2)
	require.Equal(t, answered, h.answer(t, k, request))
}

func TestAnAnswerThatACacheKeepsTooLongIsNone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Store = idempotency.NewStore(h.API, time.Hour, &hoarder{Cache: cache.NewMemory(100)})
	k := key
	k.Life = "1"
	require.NoError(t, h.claim(t, k, request).Finish(t.Context(), answered))
	_, err := h.Owner.Exec(t.Context(), "UPDATE idempotency_keys SET expires_at = now() + interval '1 second'")
	require.NoError(t, err)
	k.Life = "2" // what is told now has a second to live
	require.Equal(t, answered, h.answer(t, k, request))
	_, err = h.Owner.Exec(t.Context(), "DELETE FROM idempotency_keys")
	require.NoError(t, err)
	// The key is free, for another request too.
	require.Eventually(t, func() bool {
		claim, _, err := h.Begin(t.Context(), k, another, 0)
		return err == nil && claim != nil
	}, 20*time.Second, 20*time.Millisecond)
}

// hoarder forgets nothing: an old snapshot, or somebody who puts back what was there.
type hoarder struct{ cache.Cache }

func (h *hoarder) Put(ctx context.Context, key cache.Key, value []byte, _ time.Duration) {
	h.Cache.Put(ctx, key, value, 24*time.Hour)
}

func TestGarbageInTheCacheIsNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Store = idempotency.NewStore(h.API, time.Hour, garbage{})
	k := key
	k.Life = "1"
	require.NoError(t, h.claim(t, k, request).Finish(t.Context(), answered))
	require.Equal(t, answered, h.answer(t, k, request))
}

// garbage knows everything wrong.
type garbage struct{}

func (garbage) Get(context.Context, cache.Key) ([]byte, bool)         { return []byte("{"), true }
func (garbage) Put(context.Context, cache.Key, []byte, time.Duration) {}
