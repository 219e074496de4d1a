package cache

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/sealed"
)

// Redis is a cache that processes share.
type Redis struct {
	client *redis.Client
	box    *sealed.Box
	log    *zap.Logger
	// away is when to ask again, in nanoseconds since 1970, after it did not answer.
	away atomic.Int64
}

const (
	// A channel waits for its answer, so Redis has little time, and once it has not answered nobody waits for it for a while.
	redisTimeout = 100 * time.Millisecond
	redisRest    = time.Second
	redisPrefix  = "paylatch:"
	// maxValue bounds what is worth keeping.
	maxValue = 64 << 10
)

// NewRedis takes a URL such as redis://user:password@host:6379/0 (rediss:// with TLS). It does not connect yet, and it is no
// error if it never can.
func NewRedis(url string, box *sealed.Box, log *zap.Logger) (*Redis, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// The parse error may quote the password.
		return nil, errors.New("the Redis URL cannot be read: it must look like redis://user:password@host:6379/0")
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = redisTimeout, redisTimeout, redisTimeout, redisTimeout
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &Redis{client: redis.NewClient(options), box: box, log: log}, nil
}

// Close ends its connections.
func (r *Redis) Close() error { return r.client.Close() }

// Get implements [Cache].
func (r *Redis) Get(ctx context.Context, key Key) ([]byte, bool) {
	if r.resting() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	name := redisName(key)
	secret, err := r.client.Get(ctx, name).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		asked.WithLabelValues("redis", "miss").Inc()
		return nil, false
	case err != nil:
		r.failed(err)
		return nil, false
	}
	value, err := r.box.Open(secret, name)
	if err != nil {
		asked.WithLabelValues("redis", "foreign").Inc()
		return nil, false
	}
	asked.WithLabelValues("redis", "hit").Inc()
	return value, true
}

// Put implements [Cache].
func (r *Redis) Put(ctx context.Context, key Key, value []byte, ttl time.Duration) {
	if r.resting() || len(value) > maxValue || ttl < time.Millisecond {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	name := redisName(key)
	if err := r.client.Set(ctx, name, r.box.Seal(value, name), ttl).Err(); err != nil {
		r.failed(err)
	}
}

// redisName holds the program: another build may read the same bytes in another way, and is not told what this one made of
// them.
func redisName(key Key) string { return redisPrefix + program() + ":" + hex.EncodeToString(key[:]) }

// program names this build by its file, which is the same wherever the same image runs.
var program = sync.OnceValue(func() string {
	file, err := os.Executable()
	if err != nil {
		return rand.Text() // then nothing is shared
	}
	info, err := os.Stat(file)
	if err != nil {
		return rand.Text()
	}
	build, _ := debug.ReadBuildInfo() // nil without module support; the file says enough then
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %v", info.Size(), info.ModTime().UnixNano(), build))
	return hex.EncodeToString(sum[:6])
})

func (r *Redis) resting() bool { return time.Now().UnixNano() < r.away.Load() }

func (r *Redis) failed(err error) {
	asked.WithLabelValues("redis", "error").Inc()
	now := time.Now()
	before := r.away.Swap(now.Add(redisRest).UnixNano())
	if now.UnixNano()-before > int64(time.Minute) { // once, and not a line for each caller
		r.log.Warn("Redis does not answer; the database does its work", zap.Error(err))
	}
}

// Quiet sends what the Redis client itself has to say, such as a broken connection, to the log.
func Quiet(log *zap.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *zap.Logger }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug(fmt.Sprintf("redis: "+format, v...))
}
