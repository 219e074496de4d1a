package idempotency

import (
	"context"
	"encoding/json"
	"time"

	"github.com/paylatch/paylatch/internal/cache"
)

// keptAnswer is an answer with the request that it belongs to. Once it is kept it never changes.
type keptAnswer struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	Answer      Answer      `json:"answer"`
}

func (k Key) cached() cache.Key { return cache.KeyOf("answer", k.Life, k.Tenant, k.Route, k.Key) }

// remembered asks the cache, which only knows final answers that were committed.
func (s *Store) remembered(ctx context.Context, key Key) (a keptAnswer, ok bool) {
	if s.cache == nil || key.Life == "" {
		return a, false
	}
	text, ok := s.cache.Get(ctx, key.cached())
	return a, ok && json.Unmarshal(text, &a) == nil
}

// remember tells the cache of an answer that is committed, for as long as it is kept.
func (s *Store) remember(ctx context.Context, key Key, a keptAnswer, left time.Duration) {
	if s.cache == nil || key.Life == "" {
		return
	}
	if text, err := json.Marshal(a); err == nil {
		s.cache.Put(ctx, key.cached(), text, left)
	}
}
