package ledger

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrStopped says that a group commits no more.
var ErrStopped = errors.New("the ledger's group commit has stopped")

// Group commits journals of concurrent callers together: while one commit is under way the next ones gather, so a lone
// caller waits for nobody and a crowd shares the cost of its commits. A tenant's journals always go through the same
// writer, so that writers do not wait for each other's rows. Each journal has its own outcome.
type Group struct {
	pool    *pgxpool.Pool
	writers []chan waiting
	// stop asks the writers to end, ended says that they have.
	stop, ended chan struct{}
	once        sync.Once
}

type waiting struct {
	journal Journal
	answer  chan<- Posted
}

const (
	// maxGroup bounds one commit: beyond fifty the gain is small and a bad journal costs more retries.
	maxGroup = 50
	// groupWriters are enough for two cores; more only wait for each other on a hot account.
	groupWriters = 2
	// groupQueue is how many callers may wait before the next one does so without being in the queue.
	groupQueue = 1024
	// groupTimeout ends a commit that hangs; its keys answer what became of it.
	groupTimeout = 30 * time.Second
)

// NewGroup starts a group on the engine's pool; Stop ends it.
func NewGroup(pool *pgxpool.Pool) *Group {
	g := &Group{pool: pool, stop: make(chan struct{}), ended: make(chan struct{})}
	var writing sync.WaitGroup
	for range groupWriters {
		queue := make(chan waiting, groupQueue)
		g.writers = append(g.writers, queue)
		writing.Go(func() { g.write(queue) })
	}
	go func() {
		writing.Wait()
		close(g.ended)
	}()
	return g
}

// Post books a journal together with those that come at the same time. Journals that take from an account which may not go
// negative are booked alone. When ctx ends first the outcome is unknown, and the key answers it. Errors: as [Post], [ErrStopped].
func (g *Group) Post(ctx context.Context, j Journal) (id int64, posted bool, err error) {
	if takes(j.Lines) {
		p := postAlone(ctx, g.pool, j)
		return p.JournalID, p.New, p.Err
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(j.TenantID)) // a hash takes any bytes
	answer := make(chan Posted, 1)
	select {
	case g.writers[hash.Sum32()%groupWriters] <- waiting{j, answer}:
	case <-g.stop:
		return 0, false, ErrStopped
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	select {
	case p := <-answer:
		return p.JournalID, p.New, p.Err
	case <-ctx.Done():
		return 0, false, ctx.Err()
	case <-g.ended:
	}
	select {
	case p := <-answer: // answered just before the end
		return p.JournalID, p.New, p.Err
	default: // queued when the writers had gone
		return 0, false, ErrStopped
	}
}

// Stop lets what is queued be booked and ends the writers.
func (g *Group) Stop() {
	g.once.Do(func() { close(g.stop) })
	<-g.ended
}

func (g *Group) write(queue <-chan waiting) {
	for {
		select {
		case first := <-queue:
			g.commit(gather(first, queue))
		case <-g.stop:
			for {
				select {
				case first := <-queue:
					g.commit(gather(first, queue))
				default:
					return
				}
			}
		}
	}
}

// gather takes what waits by now, and waits for nothing.
func gather(first waiting, queue <-chan waiting) []waiting {
	group := []waiting{first}
	for len(group) < maxGroup {
		select {
		case next := <-queue:
			group = append(group, next)
		default:
			return group
		}
	}
	return group
}

func (g *Group) commit(group []waiting) {
	journals := make([]Journal, len(group))
	for i, w := range group {
		journals[i] = w.journal
	}
	// A caller that gives up does not take its neighbours' commit along.
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	for i, p := range PostMany(ctx, g.pool, journals) {
		group[i].answer <- p
	}
}
