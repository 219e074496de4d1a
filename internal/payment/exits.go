package payment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
)

// A parked event has three exits: [Entry.Replay] judges it again, [Books.BookToSuspense] takes the money in without an
// order, [Books.Reject] says that there is nothing to do. Each is on record with its reason.

// Then runs last in the transaction of an exit, with the event as it is after it.
type Then func(tx pgx.Tx, after Event) error

// BookToSuspense books the amount that a parked event reports as received to the tenant's suspense account.
// Errors: [ErrEventNotFound], [ErrNotParked], [ErrNothingToBook], [ErrAlreadyBooked].
func (b *Books) BookToSuspense(ctx context.Context, tenantID string, eventID int64, reason string, then ...Then) (Event, error) {
	return b.exit(ctx, tenantID, eventID, audit.EventBookedToSuspense, reason, then, func(tx pgx.Tx, ev Event) (Verdict, error) {
		if ev.Kind != channel.PaySuccess || ev.Amount == nil || ev.Currency == nil {
			return Verdict{}, ErrNothingToBook
		}
		if ev.ConflictsWith != nil {
			// The event that it contradicts was accepted: that one books the transaction, or has.
			return Verdict{}, ErrAlreadyBooked
		}
		journal, posted, err := b.receive(ctx, tx, ev, ledger.Suspense, KindSuspense)
		if err != nil {
			return Verdict{}, err
		}
		if !posted {
			return Verdict{}, ErrAlreadyBooked
		}
		return Verdict{State: Done, Outcome: deref(ev.Outcome), Reason: ev.Reason + "; booked to suspense: " + reason, Journal: &journal}, nil
	})
}

// Reject ends a parked event without any effect. Errors: [ErrEventNotFound], [ErrNotParked].
func (b *Books) Reject(ctx context.Context, tenantID string, eventID int64, reason string, then ...Then) (Event, error) {
	return b.exit(ctx, tenantID, eventID, audit.EventRejected, reason, then, func(_ pgx.Tx, ev Event) (Verdict, error) {
		return Ignore(Rejected, "%s (was %s: %s)", reason, deref(ev.Outcome), ev.Reason), nil
	})
}

func (b *Books) exit(ctx context.Context, tenantID string, eventID int64, action audit.Action, reason string, then []Then, decide func(pgx.Tx, Event) (Verdict, error)) (Event, error) {
	var after Event
	err := database.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		ev, err := lockEvent(ctx, tx, "e.tenant_id = $1 AND e.id = $2", tenantID, eventID)
		if err != nil {
			return err
		}
		if ev.State != Parked {
			return ErrNotParked
		}
		v, err := decide(tx, ev)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, exitEventSQL, ev.ID, v.State, v.Outcome, v.Reason, v.Journal)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return ErrNotParked
		}
		if err := audit.Record(ctx, tx, tenantID, action, audit.Event(eventID), reason); err != nil {
			return err
		}
		after, err = lockEvent(ctx, tx, "e.id = $1", ev.ID)
		return database.Last(err, then, func(do Then) error { return do(tx, after) })
	})
	if err != nil {
		return Event{}, fmt.Errorf("event %d: %w", eventID, err)
	}
	return after, nil
}
