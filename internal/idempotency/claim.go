package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/paylatch/paylatch/internal/database"
)

// Claim is the right to work on a request, until it is finished, given back, or taken over.
type Claim struct {
	store       *Store
	key         Key
	fingerprint Fingerprint
	begun       time.Time
	token       []byte
	// kept is what the effect's own transaction kept, if it was committed.
	kept *Answer
}

type claimKey struct{}

// Context gives a context under which every transaction ([database.InTx]) commits only while the claim holds.
func (c *Claim) Context(ctx context.Context) context.Context {
	return database.WithFence(context.WithValue(ctx, claimKey{}, c), c.fence)
}

// fence keeps the claim until tx ends. Error: [ErrInProgress] where another has it.
func (c *Claim) fence(ctx context.Context, tx pgx.Tx) error {
	tag, err := tx.Exec(ctx, fenceSQL, c.args()...)
	if err != nil {
		return fmt.Errorf("check the claim of the idempotency key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrInProgress
	}
	return nil
}

// Complete keeps the answer of the context's request within the effect's own transaction: either both are there or none. What is
// kept need not be all that is answered now: a secret is shown once. Without a
// claim in the context there is nothing to keep. Error: [ErrInProgress] where another has the claim.
func Complete(ctx context.Context, tx pgx.Tx, a Answer) error {
	c, ok := ctx.Value(claimKey{}).(*Claim)
	if !ok {
		return nil
	}
	tag, err := tx.Exec(ctx, finishSQL, c.args(a.Status, a.ContentType, a.Location, a.Body)...)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrInProgress
	}
	c.kept = &a
	return nil
}

// Finish keeps the answer. Where it is kept already, or another has the claim, nothing happens. It is called with what the
// caller is told: an answer that [Complete] was given and that is told as well was committed, and is not written again.
func (c *Claim) Finish(ctx context.Context, a Answer) error {
	if c.kept != nil && c.kept.same(a) {
		c.store.remember(ctx, c.key, c.fingerprint, a, c.store.ttl-time.Since(c.begun))
		return nil
	}
	kept, err := c.exec(ctx, finishSQL, c.args(a.Status, a.ContentType, a.Location, a.Body)...)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	if kept {
		c.store.remember(ctx, c.key, c.fingerprint, a, c.store.ttl-time.Since(c.begun))
	}
	return nil
}

// Release gives the claim back without an answer: the effect may be there. The same request may be worked on anew at once, and
// another request under the key is refused still.
func (c *Claim) Release(ctx context.Context) error {
	if _, err := c.exec(ctx, releaseSQL, c.args()...); err != nil {
		return fmt.Errorf("give the idempotency key back: %w", err)
	}
	return nil
}

// Drop frees the key: nothing was done under it.
func (c *Claim) Drop(ctx context.Context) error {
	if _, err := c.exec(ctx, dropSQL, c.args()...); err != nil {
		return fmt.Errorf("free the idempotency key: %w", err)
	}
	return nil
}

func (c *Claim) args(more ...any) []any {
	return append([]any{c.key.Tenant, c.key.Route, c.key.Key, c.token}, more...)
}

// scope makes row-level security show the claim's tenant for the rest of the batch, which is one transaction.
func (c *Claim) scope(batch *pgx.Batch) {
	batch.Queue("SELECT set_config('paylatch.tenant', $1, true)", c.key.Tenant)
}

// exec runs one change for the claim's tenant and tells whether it changed the row.
func (c *Claim) exec(ctx context.Context, statement string, args ...any) (changed bool, err error) {
	var batch pgx.Batch
	c.scope(&batch)
	batch.Queue(statement, args...).Exec(func(tag pgconn.CommandTag) error {
		changed = tag.RowsAffected() == 1
		return nil
	})
	err = c.store.pool.SendBatch(ctx, &batch).Close()
	return changed, err
}
