package cache_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/sealed"
)

var key = cache.KeyOf("a", "b")

func TestAKeyIsAllOfItsParts(t *testing.T) {
	t.Parallel()
	seen := map[cache.Key][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {"b", "a"}, {"\x01a"}, {"a\x00b"}, {"a,b"}} {
		k := cache.KeyOf(parts...)
		require.NotContains(t, seen, k, "%q", parts)
		require.Equal(t, k, cache.KeyOf(parts...))
		seen[k] = parts
	}
}

// requireKnown asks until there is an answer: on a busy machine Redis may take longer than it has.
func requireKnown(t *testing.T, c cache.Cache, k cache.Key, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		value, ok := c.Get(t.Context(), k)
		return ok && string(value) == want
	}, 20*time.Second, 20*time.Millisecond)
}

// put puts until it is there.
func put(t *testing.T, c cache.Cache, k cache.Key, value string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.Put(t.Context(), k, []byte(value), time.Hour)
		got, ok := c.Get(t.Context(), k)
		return ok && string(got) == value
	}, 20*time.Second, 20*time.Millisecond)
}

func requireUnknown(t *testing.T, c cache.Cache, k cache.Key) {
	t.Helper()
	value, ok := c.Get(t.Context(), k)
	require.False(t, ok, "%s", value)
}

func TestMemoryForgetsWhatNobodyAskedForTheLongest(t *testing.T) {
	t.Parallel()
	m := cache.NewMemory(3)
	keyOf := func(i int) cache.Key { return cache.KeyOf(fmt.Sprint(i)) }
	for i := range 3 {
		m.Put(t.Context(), keyOf(i), fmt.Append(nil, i), time.Hour)
	}
	requireKnown(t, m, keyOf(0), "0")
	m.Put(t.Context(), keyOf(2), []byte("two"), time.Hour)
	m.Put(t.Context(), keyOf(3), []byte("3"), time.Hour)
	requireUnknown(t, m, keyOf(1))
	requireKnown(t, m, keyOf(0), "0")
	requireKnown(t, m, keyOf(2), "two")
	requireKnown(t, m, keyOf(3), "3")
	// Its time is over.
	m.Put(t.Context(), keyOf(0), []byte("0"), -time.Second)
	requireUnknown(t, m, keyOf(0))
	requireUnknown(t, m, keyOf(0))
}

func TestMemoryHoldsUnderManyAtOnce(t *testing.T) {
	t.Parallel()
	m := cache.NewMemory(50)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				k := cache.KeyOf(fmt.Sprint(i % 97))
				if value, ok := m.Get(context.Background(), k); ok && string(value) != fmt.Sprint(i%97) {
					t.Errorf("%d is %s", i%97, value)
				}
				m.Put(context.Background(), k, fmt.Append(nil, i%97), time.Hour)
			}
		})
	}
	wg.Wait()
	known := 0
	for i := range 97 {
		if _, ok := m.Get(t.Context(), cache.KeyOf(fmt.Sprint(i))); ok {
			known++
		}
	}
	require.Equal(t, 50, known)
}

func newRedis(t *testing.T, url, masterKey string) *cache.Redis {
	t.Helper()
	box, err := sealed.New(masterKey)
	require.NoError(t, err)
	r, err := cache.NewRedis(url, box, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestRedisIsSharedAndAFasterLayerLearnsFromIt(t *testing.T) {
	t.Parallel()
	server, masterKey := startRedis(t), sealed.NewKey()
	one, two := newRedis(t, server.URL(), masterKey), newRedis(t, server.URL(), masterKey)
	requireUnknown(t, two, key)
	put(t, one, key, "value")
	requireKnown(t, two, key, "value")

	memory := cache.NewMemory(10)
	both := cache.Layers(memory, two)
	requireUnknown(t, memory, key)
	requireKnown(t, both, key, "value")
	requireKnown(t, memory, key, "value")
	other := cache.KeyOf("other")
	require.Eventually(t, func() bool {
		both.Put(t.Context(), other, []byte("x"), time.Hour)
		value, ok := one.Get(t.Context(), other)
		return ok && string(value) == "x"
	}, 20*time.Second, 20*time.Millisecond)
	requireKnown(t, one, other, "x")
	requireKnown(t, memory, other, "x")
	require.Equal(t, cache.Cache(memory), cache.Layers(memory))
	// Neither a value that is too large nor one without a time is kept.
	one.Put(t.Context(), cache.KeyOf("large"), make([]byte, 1<<20), time.Hour)
	requireUnknown(t, one, cache.KeyOf("large"))
	one.Put(t.Context(), cache.KeyOf("past"), []byte("x"), 0)
	requireUnknown(t, one, cache.KeyOf("past"))
}

func TestWhatOthersPutIntoRedisIsNotBelieved(t *testing.T) {
	t.Parallel()
	server, masterKey := startRedis(t), sealed.NewKey()
	ours := newRedis(t, server.URL(), masterKey)
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	raw := redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })
	put(t, ours, key, "value")
	names, err := raw.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.Regexp(t, "^paylatch:[0-9a-f]{12}:"+hex.EncodeToString(key[:])+"$", names[0], "the build is a part of it")
	name := func(k cache.Key) string {
		return strings.TrimSuffix(names[0], hex.EncodeToString(key[:])) + hex.EncodeToString(k[:])
	}
	genuine, err := raw.Get(t.Context(), name(key)).Bytes()
	require.NoError(t, err)
	require.NotContains(t, string(genuine), "value")
	ttl, err := raw.TTL(t.Context(), name(key)).Result()
	require.NoError(t, err)
	require.InDelta(t, time.Hour.Seconds(), ttl.Seconds(), 60)

	other := cache.KeyOf("other")
	for what, value := range map[string][]byte{
		"nothing": {}, "text": []byte("value"), "another key's": genuine, "half": genuine[:len(genuine)/2],
		"one bit more": append(append([]byte{}, genuine[:len(genuine)-1]...), genuine[len(genuine)-1]^1), "zeros": make([]byte, 100),
	} {
		require.NoError(t, raw.Set(t.Context(), name(other), value, 0).Err())
		value, ok := ours.Get(t.Context(), other)
		require.False(t, ok, "%s: %s", what, value)
	}
	require.NoError(t, raw.Del(t.Context(), name(other)).Err())
	require.NoError(t, raw.LPush(t.Context(), name(other), "a list").Err())
	requireUnknown(t, ours, other)
	// Another installation, with another master key.
	put(t, newRedis(t, server.URL(), sealed.NewKey()), other, "theirs")
	requireUnknown(t, newRedis(t, server.URL(), masterKey), other)
	requireKnown(t, newRedis(t, server.URL(), masterKey), key, "value")
}

func TestRedisAwayHangingOrNeverThereCostsLittle(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	core, logs := observer.New(zapcore.WarnLevel)
	box, err := sealed.New(sealed.NewKey())
	require.NoError(t, err)
	r, err := cache.NewRedis(server.URL(), box, zap.New(core))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	put(t, r, key, "value")

	server.Pause()
	begin := time.Now()
	for range 100 {
		requireUnknown(t, r, key)
		r.Put(t.Context(), key, []byte("value"), time.Hour)
	}
	require.Less(t, time.Since(begin), 5*time.Second, "who has not answered is not asked for a while")
	server.Resume()
	require.Eventually(t, func() bool { _, ok := r.Get(t.Context(), key); return ok }, 20*time.Second, 20*time.Millisecond)

	server.Kill()
	for range 100 {
		requireUnknown(t, r, key)
	}
	require.NoError(t, server.Start(t.Context()))
	require.Eventually(t, func() bool {
		r.Put(t.Context(), key, []byte("again"), time.Hour)
		_, ok := r.Get(t.Context(), key)
		return ok
	}, 20*time.Second, 20*time.Millisecond, "it comes back by itself")
	require.LessOrEqual(t, logs.Len(), 2, "a line a minute, not a flood")
	require.NotZero(t, logs.Len())

	for _, url := range []string{"", "localhost:6379", "http://localhost", "redis://:hunter2@host:port"} {
		_, err := cache.NewRedis(url, box, zap.NewNop())
		require.ErrorContains(t, err, "redis://")
		require.NotContains(t, err.Error(), "hunter2")
	}
}
