// Package idempotency lets a merchant send a request again: a key names it, and the same request under that key is answered as
// the first time.
//
//   - A request claims its key with a token and a lease, committed at once, so that twins see it.
//   - Every transaction of the request checks at its end that the token is still its own, and keeps it so until it has
//     committed (see database.WithFence). Whoever lost the key changes nothing any more.
//   - The answer is kept within the effect's transaction ([Complete]), or right after it where it is not known there.
//   - A process that dies leaves the answer if it left the effect. Where it did not, it leaves a lease that lapses: the same
//     request then takes the key over and runs again, and the effect's own key (out_trade_no, reference, …) makes it find what
//     was done.
//
// The table is the truth. A cache in front of it only saves the read of an answer that is final.
package idempotency

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/paylatch/paylatch/internal/cache"
)

var (
	// ErrReused says that the key belongs to another request.
	ErrReused = errors.New("the idempotency key belongs to another request")
	// ErrInProgress says that the same request is being worked on, or that another process has taken it over.
	ErrInProgress = errors.New("the same request is being worked on")
)

var requests = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "paylatch_idempotent_requests_total",
	Help: "Requests with an idempotency key, by what the key said: new, replayed, reused, in_progress, or resumed after a lapsed lease.",
}, []string{"result"})

// Lease is how long a claim holds without an answer. A request's own time is shorter.
const Lease = 30 * time.Second

// DefaultTTL is how long an answer is kept, MinTTL the least that makes sense.
const (
	DefaultTTL = 24 * time.Hour
	MinTTL     = time.Minute
)

// Key names a request: the merchant's own key within tenant and route.
type Key struct {
	Tenant string
	// Route is method and pattern of the path.
	Route string
	Key   string
	// Life is the life of the database that the caller was found in (see database.Life); without one no cache is asked.
	Life string
}

// Answer is an answer as it is kept and given again.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Location    string `json:"location,omitempty"`
	Body        []byte `json:"body"`
}

func (a Answer) same(b Answer) bool {
	return a.Status == b.Status && a.ContentType == b.ContentType && a.Location == b.Location && bytes.Equal(a.Body, b.Body)
}

// Store keeps keys, with the API's role: row-level security shows one tenant's.
type Store struct {
	pool  *pgxpool.Pool
	ttl   time.Duration
	cache cache.Cache
}

// NewStore takes the API's pool and how long answers are kept; below [MinTTL] it is [DefaultTTL]. The cache may be nil.
func NewStore(pool *pgxpool.Pool, ttl time.Duration, cache cache.Cache) *Store {
	if ttl < MinTTL {
		ttl = DefaultTTL
	}
	return &Store{pool, ttl, cache}
}

// Fingerprint is a hash of a whole request.
type Fingerprint = [32]byte

// The pace of looks at a key that another works on.
const (
	firstLook = 10 * time.Millisecond
	laterLook = 150 * time.Millisecond
)

// Begin claims a key, or gives the answer that is kept under it; one of the two is set where there is no error. While the same
// request is worked on it waits as long as it may. Errors: [ErrReused], also then; [ErrInProgress].
func (s *Store) Begin(ctx context.Context, key Key, fingerprint Fingerprint, wait time.Duration) (*Claim, *Answer, error) {
	if kept, ok := s.remembered(ctx, key); ok {
		if kept.Fingerprint != fingerprint {
			requests.WithLabelValues(string(reused)).Inc()
			return nil, nil, ErrReused
		}
		requests.WithLabelValues(string(replayed)).Inc()
		return nil, &kept.Answer, nil
	}
	claim := &Claim{store: s, key: key, fingerprint: fingerprint, begun: time.Now(), token: make([]byte, 16)}
	rand.Read(claim.token)
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for pause := firstLook; ; pause = min(2*pause, laterLook) {
		result, answer, err := s.try(ctx, claim)
		for err == nil && result == changed {
			result, answer, err = s.try(ctx, claim)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("claim the idempotency key: %w", err)
		}
		if result != inProgress {
			requests.WithLabelValues(string(result)).Inc()
		}
		switch result {
		case reused:
			return nil, nil, ErrReused
		case replayed:
			return nil, answer, nil
		case fresh, resumed:
			return claim, nil, nil
		}
		select {
		case <-deadline.C:
			requests.WithLabelValues(string(inProgress)).Inc()
			return nil, nil, ErrInProgress
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// result is what one look at a key said.
type result string

const (
	fresh      result = "new"
	resumed    result = "resumed"
	replayed   result = "replayed"
	reused     result = "reused"
	inProgress result = "in_progress"
	// changed says that the key was freed or taken at this moment: look again.
	changed result = "changed"
)

var (
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/look.sql
	lookSQL string
	//go:embed sql/take_over.sql
	takeOverSQL string
	//go:embed sql/fence.sql
	fenceSQL string
	//go:embed sql/finish.sql
	finishSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/drop.sql
	dropSQL string
	//go:embed sql/drop_expired.sql
	dropExpiredSQL string
	//go:embed sql/purge.sql
	purgeSQL string
)

type row struct {
	Fingerprint []byte        `db:"fingerprint"`
	Mine        bool          `db:"mine"`
	Lapsed      bool          `db:"lapsed"`
	Expired     bool          `db:"expired"`
	Left        time.Duration `db:"left"`
	Status      *int          `db:"status"`
	ContentType string        `db:"content_type"`
	Location    string        `db:"location"`
	Body        []byte        `db:"body"`
}

// try claims the key if it is free or lapsed, and tells how it stands.
func (s *Store) try(ctx context.Context, claim *Claim) (result, *Answer, error) {
	k, fingerprint := claim.key, claim.fingerprint
	r, err := s.look(ctx, claim, claimSQL, k.Tenant, k.Route, k.Key, fingerprint[:], claim.token, Lease, s.ttl)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return changed, nil, nil
	case err != nil:
		return "", nil, err
	case r.Mine:
		return fresh, nil, nil
	case r.Expired && r.Lapsed:
		_, err := claim.exec(ctx, dropExpiredSQL, k.Tenant, k.Route, k.Key)
		return changed, nil, err
	case string(r.Fingerprint) != string(fingerprint[:]):
		return reused, nil, nil
	case r.Status != nil:
		answer := Answer{*r.Status, r.ContentType, r.Location, r.Body}
		s.remember(ctx, k, fingerprint, answer, r.Left)
		return replayed, &answer, nil
	case !r.Lapsed:
		return inProgress, nil, nil
	}
	r, err = s.look(ctx, claim, takeOverSQL, k.Tenant, k.Route, k.Key, fingerprint[:], claim.token, Lease)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return changed, nil, nil
	case err != nil:
		return "", nil, err
	case r.Mine:
		return resumed, nil, nil
	}
	return changed, nil, nil // another was faster
}

// look runs one change for the claim's tenant and reads the key after it, in one round trip and one transaction.
func (s *Store) look(ctx context.Context, claim *Claim, change string, args ...any) (r row, err error) {
	k := claim.key
	var batch pgx.Batch
	claim.scope(&batch)
	// A claim that a crash of the database forgets was followed by nothing: the effect's own commit puts it on disk as well,
	// because the log is written in order. So the claim does not wait for the disk.
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	batch.Queue(change, args...)
	batch.Queue(lookSQL, k.Tenant, k.Route, k.Key, claim.token).Query(func(rows pgx.Rows) error {
		r, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[row])
		return err
	})
	err = s.pool.SendBatch(ctx, &batch).Close()
	return r, err
}
