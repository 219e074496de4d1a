package api

import (
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/paylatch/paylatch/internal/tenant"
)

// RateLimit is what one API key may ask of one process: so many calls a second, and a burst at once.
type RateLimit struct {
	PerSecond float64
	Burst     int
}

var limited = promauto.NewCounter(prometheus.CounterOpts{
	Name: "paylatch_rate_limited_total",
	Help: "Calls of the merchants' API that were refused because their key asked too much, or their address with too many unknown keys.",
})

// limits holds a bucket per API key, and one per tenant: keys can be made and revoked faster than a bucket fills, and each comes
// with a full one. All keys of a tenant together may ask what as many keys as it may have could.
type limits struct {
	RateLimit
	mu      sync.Mutex
	keys    map[int64]*rate.Limiter
	tenants map[string]*rate.Limiter
}

func newLimits(limit RateLimit) *limits {
	return &limits{RateLimit: limit, keys: map[int64]*rate.Limiter{}, tenants: map[string]*rate.Limiter{}}
}

// take takes a call out of the buckets of a key and its tenant; where none is left it tells how long that takes to change.
func (l *limits) take(tenantID string, keyID int64) (wait time.Duration) {
	if l.PerSecond <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	own := bucketOf(l.keys, keyID, l.RateLimit, 1, now).ReserveN(now, 1)
	all := bucketOf(l.tenants, tenantID, l.RateLimit, tenant.MaxLiveKeys, now).ReserveN(now, 1)
	if wait = max(own.DelayFrom(now), all.DelayFrom(now)); wait > 0 {
		own.CancelAt(now) // a refused call does not make the next one wait
		all.CancelAt(now)
	}
	return wait
}

// sweepAt is how many buckets there are before those that are full again, and so tell nothing, are dropped.
const sweepAt = 1024

func bucketOf[K comparable](buckets map[K]*rate.Limiter, name K, limit RateLimit, times int, now time.Time) *rate.Limiter {
	bucket, ok := buckets[name]
	if !ok {
		if len(buckets) >= sweepAt {
			maps.DeleteFunc(buckets, func(_ K, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(b.Burst()) })
		}
		bucket = rate.NewLimiter(rate.Limit(limit.PerSecond*float64(times)), max(1, limit.Burst)*times)
		buckets[name] = bucket
	}
	return bucket
}

// tooMany refuses a call that would be taken later.
func (s *server) tooMany(c *gin.Context, wait time.Duration, detail string) {
	retryAfter(c, wait)
	s.fail(c, newProblem(http.StatusTooManyRequests, "rate_limited", detail))
}

func retryAfter(c *gin.Context, wait time.Duration) {
	limited.Inc()
	c.Header("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}
