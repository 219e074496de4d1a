// Package cache keeps answers that are final, so that the same question need not go to the database again. It is never needed:
// emptied, killed, or full of what somebody else has written, it costs speed and nothing else.
//
//   - What is kept is true for ever in the life of one database (see database.Life), which is a part of each key: a database
//     that was restored from a backup asks other questions.
//   - It is written after the commit that it tells of, and is never a lock.
//   - In Redis each value is sealed with the master key, for its key: what others have put there does not open, and nobody
//     reads there what a payment was.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Key is a hash of all that makes a question what it is.
type Key [sha256.Size]byte

// KeyOf hashes the parts of a question; each stands for itself, whatever is in it.
func KeyOf(parts ...string) Key {
	var text []byte
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}

// Cache keeps values, as long as it likes and at most for the time given. Neither call fails: a cache that is away knows
// nothing.
type Cache interface {
	Get(ctx context.Context, key Key) (value []byte, ok bool)
	Put(ctx context.Context, key Key, value []byte, ttl time.Duration)
}

var asked = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "paylatch_cache_requests_total",
	Help: "Questions to the caches of final answers, by cache (memory, redis) and result: hit, miss, foreign (not ours), or error.",
}, []string{"cache", "result"})

// Layers asks caches one after another, the fastest first, and tells those before the one that knew.
func Layers(caches ...Cache) Cache {
	if len(caches) == 1 {
		return caches[0]
	}
	return layers(caches)
}

type layers []Cache

// promoted is how long a faster layer keeps what a slower one knew.
const promoted = time.Hour

func (l layers) Get(ctx context.Context, key Key) ([]byte, bool) {
	for i, c := range l {
		value, ok := c.Get(ctx, key)
		if !ok {
			continue
		}
		for _, faster := range l[:i] {
			faster.Put(ctx, key, value, promoted)
		}
		return value, true
	}
	return nil, false
}

func (l layers) Put(ctx context.Context, key Key, value []byte, ttl time.Duration) {
	for _, c := range l {
		c.Put(ctx, key, value, ttl)
	}
}
