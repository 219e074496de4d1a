package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

var (
	key      = idempotency.Key{Tenant: "shop", Route: "POST /v1/things", Key: "k"}
	request  = idempotency.Fingerprint{1}
	another  = idempotency.Fingerprint{2}
	answered = idempotency.Answer{Status: 201, ContentType: "application/json", Location: "/v1/things/1", Body: []byte(`{"n":9007199254740993}`)}
)

// house is a store with a table of effects beside it.
type house struct {
	*testhouse.Database
	*idempotency.Store
}

func newHouse(t *testing.T) house {
	t.Helper()
	db := testhouse.NewDatabase(t)
	for _, name := range []string{"shop", "other"} {
		_, err := tenant.Add(t.Context(), db.Engine, name, "CNY")
		require.NoError(t, err)
	}
	_, err := db.Owner.Exec(t.Context(), "CREATE TABLE effects (what text NOT NULL); GRANT SELECT, INSERT ON effects TO paylatch_api, paylatch_engine")
	require.NoError(t, err)
	return house{db, idempotency.NewStore(db.API, time.Hour, nil)}
}

// claim must get the right to work on the request.
func (h house) claim(t *testing.T, k idempotency.Key, print idempotency.Fingerprint) *idempotency.Claim {
	t.Helper()
	claim, answer, err := h.Begin(t.Context(), k, print, 0)
	require.NoError(t, err)
	require.Nil(t, answer)
	require.NotNil(t, claim)
	return claim
}

// answer must get what was kept.
func (h house) answer(t *testing.T, k idempotency.Key, print idempotency.Fingerprint) idempotency.Answer {
	t.Helper()
	claim, answer, err := h.Begin(t.Context(), k, print, 0)
	require.NoError(t, err)
	require.Nil(t, claim)
	return *answer
}

func (h house) refused(t *testing.T, k idempotency.Key, print idempotency.Fingerprint, want error) {
	t.Helper()
	_, _, err := h.Begin(t.Context(), k, print, 0)
	require.ErrorIs(t, err, want)
}

// lapse makes every lease end, as 30 s would.
func (h house) lapse(t *testing.T) {
	t.Helper()
	_, err := h.Owner.Exec(t.Context(), "UPDATE idempotency_keys SET lease_until = now() - interval '1 second' WHERE status IS NULL")
	require.NoError(t, err)
}

// effect does something in a transaction under ctx.
func effect(ctx context.Context, pool *pgxpool.Pool, what string) error {
	return database.InTenantTx(ctx, pool, key.Tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", what)
		return err
	})
}

func (h house) effects(t *testing.T) int {
	t.Helper()
	return h.Count(t, "SELECT count(*) FROM effects")
}

func TestTheFirstAnswerIsGivenAgainWordForWord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	claim := h.claim(t, key, request)
	require.NoError(t, claim.Finish(t.Context(), answered))
	for range 3 {
		require.Equal(t, answered, h.answer(t, key, request))
	}
	h.refused(t, key, another, idempotency.ErrReused)
	empty := idempotency.Answer{Status: 200, Body: []byte{}}
	route := key
	route.Route = "POST /v1/others"
	require.NoError(t, h.claim(t, route, another).Finish(t.Context(), empty))
	require.Equal(t, empty, h.answer(t, route, another), "another operation, another request")
}

func TestKeysOfTwoTenantsNeverMeet(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	theirs := key
	theirs.Tenant = "other"
	require.NoError(t, h.claim(t, key, request).Finish(t.Context(), answered))
	claim := h.claim(t, theirs, another)
	require.Equal(t, answered, h.answer(t, key, request))
	require.NoError(t, claim.Drop(t.Context()))
	require.Equal(t, answered, h.answer(t, key, request))

	// Row-level security, whatever a statement says.
	count := func(as string) (n int) {
		require.NoError(t, database.InTenantTx(t.Context(), h.API, as, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), "SELECT count(*) FROM idempotency_keys").Scan(&n)
		}))
		return n
	}
	require.Equal(t, 1, count("shop"))
	require.Zero(t, count("other"))
	require.Zero(t, count(""))
}

func TestAnotherRequestIsRefusedAtOnceWhileTheFirstIsWorkedOn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.claim(t, key, request)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, _, err := h.Begin(ctx, key, another, time.Hour)
	require.ErrorIs(t, err, idempotency.ErrReused)
	h.refused(t, key, request, idempotency.ErrInProgress)
	// Also when its worker is gone for good.
	h.lapse(t)
	h.refused(t, key, another, idempotency.ErrReused)
}

func TestATwinWaitsForWhatBecomesOfTheFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*idempotency.Claim) error
		kept bool
	}{
		"answered":    {func(c *idempotency.Claim) error { return c.Finish(context.Background(), answered) }, true},
		"given back":  {func(c *idempotency.Claim) error { return c.Release(context.Background()) }, false},
		"nothing was": {func(c *idempotency.Claim) error { return c.Drop(context.Background()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			first := h.claim(t, key, request)
			type twin struct {
				claim  *idempotency.Claim
				answer *idempotency.Answer
				err    error
			}
			var looks atomic.Int32
			pool, err := openTraced(h.APIURL, counter("INSERT INTO idempotency_keys", &looks))
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			waiting := make(chan twin, 1)
			go func() {
				var w twin
				w.claim, w.answer, w.err = idempotency.NewStore(pool, 0, nil).Begin(context.Background(), key, request, time.Minute)
				waiting <- w
			}()
			require.Eventually(t, func() bool { return looks.Load() > 2 }, 20*time.Second, 5*time.Millisecond, "it looks, and waits")
			require.Empty(t, waiting)
			require.NoError(t, c.end(first))
			w := <-waiting
			require.NoError(t, w.err)
			if c.kept {
				require.Equal(t, answered, *w.answer)
				return
			}
			require.NotNil(t, w.claim, "the twin goes on")
			require.Error(t, effect(first.Context(t.Context()), h.API, "late"), "and the first is barred")
			require.NoError(t, effect(w.claim.Context(t.Context()), h.API, "once"))
			require.Equal(t, 1, h.effects(t))
		})
	}
}

func TestWhatWasGivenBackStaysBoundToItsRequestAndWhatWasFreedDoesNot(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	given := h.claim(t, key, request)
	require.NoError(t, given.Release(t.Context()))
	require.ErrorIs(t, effect(given.Context(t.Context()), h.Engine, "late"), idempotency.ErrInProgress, "who gave it back is barred, taken over or not")
	require.Zero(t, h.effects(t))
	h.refused(t, key, another, idempotency.ErrReused)
	require.NoError(t, h.claim(t, key, request).Drop(t.Context()))
	h.claim(t, key, another)
}

func TestAProcessThatDiedDoesNotHoldTheKeyAndOneThatWasSlowIsBarred(t *testing.T) {
	t.Parallel()
	for name, pool := range map[string]func(house) *pgxpool.Pool{
		"api":    func(h house) *pgxpool.Pool { return h.API },
		"engine": func(h house) *pgxpool.Pool { return h.Engine },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			slow := h.claim(t, key, request)
			require.NoError(t, effect(slow.Context(t.Context()), pool(h), "first"))
			h.lapse(t)
			// The lease alone bars nobody: the work may just be slow.
			require.NoError(t, effect(slow.Context(t.Context()), pool(h), "second"))
			next := h.claim(t, key, request)

			err := effect(slow.Context(t.Context()), pool(h), "late")
			require.ErrorIs(t, err, idempotency.ErrInProgress)
			read := database.InTenantTx(slow.Context(t.Context()), pool(h), key.Tenant, func(pgx.Tx) error { return nil })
			require.ErrorIs(t, read, idempotency.ErrInProgress)
			require.NoError(t, slow.Finish(t.Context(), idempotency.Answer{Status: 200, Body: []byte("wrong")}))
			require.NoError(t, slow.Release(t.Context()))
			require.NoError(t, slow.Drop(t.Context()))
			h.refused(t, key, request, idempotency.ErrInProgress)
			require.NoError(t, effect(next.Context(t.Context()), pool(h), "third"))
			require.NoError(t, next.Finish(t.Context(), answered))
			require.Equal(t, answered, h.answer(t, key, request))
			require.Equal(t, 3, h.effects(t))
		})
	}
}

func TestATakeOverWaitsForACommitThatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"it commits": nil, "it rolls back": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			first := h.claim(t, key, request)
			h.lapse(t)
			inside, goOn := make(chan struct{}), make(chan struct{})
			done := make(chan error, 1)
			ctx := first.Context(context.Background())
			go func() {
				done <- database.InTx(ctx, h.Engine, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('first')"); err != nil {
						return err
					}
					if err := idempotency.Complete(ctx, tx, answered); err != nil {
						return err
					}
					close(inside)
					<-goOn
					return end
				})
			}()
			<-inside
			type outcome struct {
				claim  *idempotency.Claim
				answer *idempotency.Answer
				err    error
			}
			taken := make(chan outcome, 1)
			go func() {
				var o outcome
				o.claim, o.answer, o.err = h.Begin(context.Background(), key, request, time.Minute)
				taken <- o
			}()
			// It waits in the database for the row.
			require.Eventually(t, func() bool {
				return h.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0 || len(taken) > 0
			}, 20*time.Second, 5*time.Millisecond)
			require.Empty(t, taken)
			close(goOn)
			require.ErrorIs(t, <-done, end)
			o := <-taken
			require.NoError(t, o.err)
			if end == nil {
				require.Equal(t, answered, *o.answer)
				require.Equal(t, 1, h.effects(t))
			} else {
				require.NotNil(t, o.claim)
				require.Zero(t, h.effects(t))
			}
		})
	}
}

// stopAt opens a pool that stops at a statement, once: before it is sent, or after its answer came. reached tells that it has,
// goOn lets it go on.
func (h house) stopAt(t *testing.T, url, statement string, after bool) (pool *pgxpool.Pool, reached <-chan struct{}, goOn func()) {
	t.Helper()
	there, on := make(chan struct{}), make(chan struct{})
	goOn = sync.OnceFunc(func() { close(on) })
	stop := sync.OnceFunc(func() {
		close(there)
		<-on
	})
	at := func(here bool) func(string) {
		return func(sql string) {
			if here && strings.Contains(sql, statement) {
				stop()
			}
		}
	}
	pool, err := openTraced(url, statements{begins: at(!after), ended: at(after)})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	t.Cleanup(goOn)
	return pool, there, goOn
}

func TestATakeOverWaitsForWhoHasPassedTheFence(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first := h.claim(t, key, request)
	h.lapse(t)
	pool, passed, goOn := h.stopAt(t, h.EngineURL, "SELECT FROM idempotency_keys", true)
	done := make(chan error, 1)
	go func() { done <- effect(first.Context(context.Background()), pool, "first") }()
	<-passed
	// It will commit. Whoever takes the key over now must see what it did, and so has to wait for it.
	seen := make(chan int, 1)
	go func() {
		n := -1
		claim, _, err := h.Begin(context.Background(), key, request, time.Minute)
		if err == nil && claim != nil {
			err = h.Engine.QueryRow(context.Background(), "SELECT count(*) FROM effects").Scan(&n)
		}
		if err != nil {
			t.Error(err)
		}
		seen <- n
	}()
	require.Eventually(t, func() bool {
		return len(seen) > 0 || h.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	}, 20*time.Second, 5*time.Millisecond)
	require.Empty(t, seen)
	goOn()
	require.NoError(t, <-done)
	require.Equal(t, 1, <-seen)
}

func TestAnAnswerThatComesJustBeforeATakeOverIsTheAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	slow := h.claim(t, key, request)
	h.lapse(t)
	pool, looked, goOn := h.stopAt(t, h.APIURL, "SET token = $5, lease_until", false)
	type outcome struct {
		claim  *idempotency.Claim
		answer *idempotency.Answer
		err    error
	}
	taken := make(chan outcome, 1)
	go func() {
		var o outcome
		o.claim, o.answer, o.err = idempotency.NewStore(pool, 0, nil).Begin(context.Background(), key, request, time.Minute)
		taken <- o
	}()
	<-looked
	require.NoError(t, slow.Finish(t.Context(), answered))
	goOn()
	o := <-taken
	require.NoError(t, o.err)
	require.Nil(t, o.claim)
	require.Equal(t, answered, *o.answer)
}

func TestFiftyFirstUsesAtOnceAreOneClaim(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	claims, answers := 0, 0
	for range 50 {
		wg.Go(func() {
			claim, answer, err := h.Begin(context.Background(), key, request, time.Minute)
			if err == nil && claim != nil {
				err = effect(claim.Context(context.Background()), h.API, "once")
				err = errors.Join(err, claim.Finish(context.Background(), answered))
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case claim != nil:
				claims++
			case answer.Status == 201:
				answers++
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int{1, 49}, []int{claims, answers})
	require.Equal(t, 1, h.effects(t))
	require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM idempotency_keys"))
}

func TestOfManyWhoTakeALapsedKeyOverOneDoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.claim(t, key, request)
	h.lapse(t)
	var wg sync.WaitGroup
	taken := make(chan *idempotency.Claim, 30)
	for range 30 {
		wg.Go(func() {
			claim, _, err := h.Begin(context.Background(), key, request, 0)
			if err == nil {
				taken <- claim
			} else if !errors.Is(err, idempotency.ErrInProgress) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, taken, 1)
}

func TestAnEffectWithoutAKeyOfItsOwnKeepsItsAnswerInItsTransaction(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	completed := func(ctx context.Context, end error) error {
		return database.InTx(ctx, h.Engine, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('x')"); err != nil {
				return err
			}
			return errors.Join(idempotency.Complete(ctx, tx, answered), end)
		})
	}
	claim := h.claim(t, key, request)
	ctx := claim.Context(t.Context())
	require.Error(t, completed(ctx, errors.New("no")))
	h.refused(t, key, request, idempotency.ErrInProgress)
	require.NoError(t, completed(ctx, nil))
	require.Equal(t, answered, h.answer(t, key, request), "the answer is there if the effect is")
	require.ErrorIs(t, completed(ctx, nil), idempotency.ErrInProgress, "and once")
	require.Equal(t, 1, h.effects(t))
	// What the handler answers in the end does not change it, nor does a failure after the commit.
	require.NoError(t, claim.Finish(t.Context(), idempotency.Answer{Status: 200, Body: []byte("with a secret")}))
	require.NoError(t, claim.Release(t.Context()))
	require.NoError(t, claim.Drop(t.Context()))
	require.Equal(t, answered, h.answer(t, key, request))

	require.NoError(t, completed(t.Context(), nil), "without a key there is nothing to keep")
	require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM idempotency_keys"))
}

func TestAnAnswerIsKeptForItsTimeAndNoLonger(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	purge := func() {
		t.Helper()
		moved, err := idempotency.Purger{Pool: h.Engine}.Redrive(t.Context())
		require.NoError(t, err)
		require.Zero(t, moved)
	}
	require.NoError(t, h.claim(t, key, request).Finish(t.Context(), answered))
	open := key
	open.Key = "open"
	h.claim(t, open, request)
	purge()
	require.Equal(t, answered, h.answer(t, key, request))

	_, err := h.Owner.Exec(t.Context(), "UPDATE idempotency_keys SET expires_at = now() - interval '1 second', lease_until = CASE WHEN key = 'k' THEN now() - interval '1 second' ELSE lease_until END")
	require.NoError(t, err)
	// What has expired is gone, purged or not, and what is worked on is not.
	require.NoError(t, h.claim(t, key, another).Finish(t.Context(), answered))
	h.refused(t, open, request, idempotency.ErrInProgress)
	purge()
	require.Equal(t, answered, h.answer(t, key, another))
	require.Equal(t, 2, h.Count(t, "SELECT count(*) FROM idempotency_keys"))

	_, err = h.Owner.Exec(t.Context(), `
INSERT INTO idempotency_keys (tenant_id, route, key, fingerprint, token, lease_until, expires_at)
SELECT 'shop', 'POST /v1/things', 'old-' || n, sha256('x'), '', now() - interval '1 day', now() - interval '1 hour' FROM generate_series(1, 1300) n`)
	require.NoError(t, err)
	purge()
	require.Equal(t, 2, h.Count(t, "SELECT count(*) FROM idempotency_keys"), "in batches, to the end")
}

func TestTheTimeThatAnAnswerIsKeptIsTheStores(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, ttl := range map[string]time.Duration{"1": 2 * time.Hour, "2": idempotency.MinTTL, "3": 0, "4": time.Second} {
		k := key
		k.Key = name
		_, _, err := idempotency.NewStore(h.API, ttl, nil).Begin(t.Context(), k, request, 0)
		require.NoError(t, err)
	}
	for name, want := range map[string]time.Duration{"1": 2 * time.Hour, "2": time.Minute, "3": 24 * time.Hour, "4": 24 * time.Hour} {
		require.Equal(t, int(want.Seconds()), h.Count(t, "SELECT extract(epoch FROM expires_at - created_at)::int FROM idempotency_keys WHERE key = $1", name), fmt.Sprint(name))
	}
}
