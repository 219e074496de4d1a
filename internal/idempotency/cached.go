package idempotency

import (
	"context"
	"encoding/json"
	"time"

	"github.com/paylatch/paylatch/internal/cache"
)

// keptAnswer is an answer with the request that it belongs to. Once it is kept it never changes, until the key is free again:
// the end stands in it, so that a cache which keeps it longer, or is given an old value again, changes nothing.
type keptAnswer struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	Answer      Answer      `json:"answer"`
	Until       time.Time   `json:"until"`
}

func (k Key) cached() cache.Key { return cache.KeyOf("answer", k.Life, k.Tenant, k.Route, k.Key) }

// remembered asks the cache, which only knows final answers that were committed.
func (s *Store) remembered(ctx context.Context, key Key) (a keptAnswer, ok bool) {
	if s.cache == nil || key.Life == "" {
		return a, false
	}
	text, ok := s.cache.Get(ctx, key.cached())
	return a, ok && json.Unmarshal(text, &a) == nil && time.Now().Before(a.Until)
}

// remember tells the cache of an answer that is committed, for as long as it is kept.
func (s *Store) remember(ctx context.Context, key Key, fingerprint Fingerprint, a Answer, left time.Duration) {
	if s.cache == nil || key.Life == "" {
		return
	}
	if text, err := json.Marshal(keptAnswer{fingerprint, a, time.Now().Add(left)}); err == nil {
		s.cache.Put(ctx, key.cached(), text, left)
	}
}
