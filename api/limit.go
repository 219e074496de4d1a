package api

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
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
	Help: "Calls of the merchants' API that were refused because their key asked too much.",
})

// limits holds a bucket per API key. A key exists in the database before it has a bucket here, so there are no more buckets
// than keys that were used since the process began.
type limits struct {
	RateLimit
	mu      sync.Mutex
	buckets map[int64]*rate.Limiter
}

func newLimits(limit RateLimit) *limits {
	return &limits{RateLimit: limit, buckets: map[int64]*rate.Limiter{}}
}

// take takes a call out of the key's bucket; where none is left it tells how long that takes to change.
func (l *limits) take(keyID int64) (wait time.Duration) {
	if l.PerSecond <= 0 {
		return 0
	}
	l.mu.Lock()
	bucket, ok := l.buckets[keyID]
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(l.PerSecond), max(1, l.Burst))
		l.buckets[keyID] = bucket
	}
	l.mu.Unlock()
	call := bucket.Reserve()
	if wait = call.Delay(); wait > 0 {
		call.Cancel() // a refused call does not make the next one wait
	}
	return wait
}

func (s *server) tooMany(c *gin.Context, who tenant.Identified, wait time.Duration) {
	limited.Inc()
	s.log.Info("an API key asks too much", zap.String("request_id", requestID(c)), zap.String("tenant", who.TenantID), zap.String("key", who.KeyPrefix))
	c.Header("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	s.fail(c, newProblem(http.StatusTooManyRequests, "rate_limited", "this API key asks more than it may; wait as Retry-After says"))
}
