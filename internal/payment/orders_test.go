package payment_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestADoubleClickMakesOneOrder(t *testing.T) {
	t.Parallel()
	h, _ := newHouse(t)
	var made atomic.Int64
	var group errgroup.Group
	for range 20 {
		group.Go(func() error {
			_, created, err := h.Orders.Create(context.Background(), h.Tenant, testhouse.Order("o", 100), time.Now())
			if created {
				made.Add(1)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(1), made.Load())

	other := testhouse.Order("o", 101)
	_, _, err := h.Orders.Create(t.Context(), h.Tenant, other, time.Now())
	require.ErrorIs(t, err, payment.ErrNumberReused)
	require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM payments"))
}

func TestMovesAreGuarded(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	ctx := t.Context()
	_, err := h.Orders.Ship(ctx, h.Tenant, "o")
	require.ErrorIs(t, err, payment.ErrIllegalMove)
	_, err = h.Orders.Complete(ctx, h.Tenant, "o")
	require.ErrorIs(t, err, payment.ErrIllegalMove)

	h.Report(t, testhouse.Paid(t, "tx", "o", 100))
	_, err = h.Orders.Close(ctx, h.Tenant, "o")
	require.ErrorIs(t, err, payment.ErrAlreadyPaid, "the report is here, only not booked yet")
	driver.Book(t, h.Books)
	_, err = h.Orders.Close(ctx, h.Tenant, "o")
	require.ErrorIs(t, err, payment.ErrAlreadyPaid)

	for _, step := range []struct {
		move func(context.Context, string, string, ...payment.Moved) (payment.Payment, error)
		to   payment.State
	}{{h.Orders.Ship, payment.Shipped}, {h.Orders.Complete, payment.Completed}} {
		for range 2 { // the state it is already in is no error
			p, err := step.move(ctx, h.Tenant, "o")
			require.NoError(t, err)
			require.Equal(t, step.to, p.State)
		}
	}
	_, err = h.Orders.Ship(ctx, h.Tenant, "o")
	require.ErrorIs(t, err, payment.ErrIllegalMove)
	_, err = h.Orders.Close(ctx, h.Tenant, "none")
	require.ErrorIs(t, err, payment.ErrNotFound)
	_, err = h.Orders.Get(ctx, "another", "o")
	require.ErrorIs(t, err, payment.ErrNotFound, "another tenant sees nothing")
}

func TestTheDatabaseHoldsTheStateMachineToo(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	for _, sql := range []string{
		"UPDATE payments SET state = 'SHIPPED'", "UPDATE payments SET state = 'COMPLETED'",
	} {
		_, err := h.Owner.Exec(t.Context(), sql)
		require.True(t, database.Violated(err, "payment_move"), "%s: %v", sql, err)
	}
	_, err := h.Owner.Exec(t.Context(), "UPDATE payments SET state = 'PAID'")
	require.True(t, database.Violated(err, "paid_means_credited"), "no paid order without its journal: %v", err)
	h.Report(t, testhouse.Paid(t, "tx", "o", 100))
	driver.Book(t, h.Books)
	for _, sql := range []string{"UPDATE payments SET state = 'PENDING'", "UPDATE payments SET state = 'CLOSED'"} {
		_, err := h.Owner.Exec(t.Context(), sql)
		require.True(t, database.Violated(err, "payment_move"), "%s: %v", sql, err)
	}
	_, err = h.Engine.Exec(t.Context(), "UPDATE payments SET amount = 1")
	require.ErrorContains(t, err, "permission denied", "an order's amount is never changed")
}

func TestOrdersThatNobodyPaysAreClosedInTime(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	soon := testhouse.Order("soon", 100)
	second := int64(1)
	soon.ExpiresIn = &second
	h.Create(t, soon)
	reported := soon
	reported.OutTradeNo = "reported"
	h.Create(t, reported)
	h.Report(t, testhouse.Paid(t, "tx", "reported", 100))
	h.Create(t, testhouse.Order("later", 100))

	h.Clock.Pass(2 * time.Second)
	_, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, payment.Closed, h.State(t, "soon"))
	require.Equal(t, payment.Pending, h.State(t, "reported"), "money that is here but not booked keeps its order open")
	require.Equal(t, payment.Pending, h.State(t, "later"))
	driver.Book(t, h.Books)
	require.Equal(t, payment.Paid, h.State(t, "reported"))

	h.Clock.Pass(payment.DefaultExpiry)
	_, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, payment.Closed, h.State(t, "later"))
}

func TestTheThreeExitsOfWhatIsParked(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	ctx := t.Context()
	h.Create(t, testhouse.Order("o", 100))

	t.Run("book to suspense, once", func(t *testing.T) {
		parked := h.Report(t, testhouse.Paid(t, "tx-a", "o", 70))
		_, err := h.Books.BookToSuspense(ctx, "another", parked.EventID, "x")
		require.ErrorIs(t, err, payment.ErrEventNotFound)
		ev, err := h.Books.BookToSuspense(ctx, h.Tenant, parked.EventID, "the payer will be refunded")
		require.NoError(t, err)
		require.Equal(t, payment.Done, ev.State)
		require.Contains(t, ev.Reason, "the payer will be refunded")
		require.NotNil(t, ev.JournalKey)
		_, err = h.Books.BookToSuspense(ctx, h.Tenant, parked.EventID, "again")
		require.ErrorIs(t, err, payment.ErrNotParked)
		// What contradicts it cannot book the same transaction a second time.
		conflict := h.Report(t, testhouse.Paid(t, "tx-a", "o", 100))
		require.Equal(t, payment.Conflict, conflict.Outcome)
		_, err = h.Books.BookToSuspense(ctx, h.Tenant, conflict.EventID, "x")
		require.ErrorIs(t, err, payment.ErrAlreadyBooked)
	})
	t.Run("reject, and a right report still counts", func(t *testing.T) {
		parked := h.Report(t, testhouse.Paid(t, "tx-b", "o", 99))
		ev, err := h.Books.Reject(ctx, h.Tenant, parked.EventID, "a test of the channel")
		require.NoError(t, err)
		require.Equal(t, payment.Ignored, ev.State)
		require.True(t, h.Report(t, testhouse.Paid(t, "tx-b", "o", 99)).Duplicate)
		require.Equal(t, payment.Received, h.Report(t, testhouse.Paid(t, "tx-b", "o", 100)).State)
		require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	})
	t.Run("judge again by a replay", func(t *testing.T) {
		parked := h.Report(t, testhouse.Paid(t, "tx-c", "later", 100))
		_, err := h.Entry.Replay(ctx, h.Tenant, parked.EventID)
		require.NoError(t, err)
		require.Equal(t, []string{"PARKED UNKNOWN_ORDER"}, h.Events(t, "later"))
		_, _, err = h.Orders.Create(ctx, h.Tenant, testhouse.Order("later", 100), time.Now())
		require.NoError(t, err)
		_, err = h.Entry.Replay(ctx, h.Tenant, parked.EventID)
		require.NoError(t, err)
		_, err = h.Entry.Replay(ctx, h.Tenant, parked.EventID) // delivered at once, however young it is
		require.NoError(t, err)
		require.Equal(t, []payment.Outcome{payment.Credited, payment.Credited}, driver.Book(t, h.Books))
		_, err = h.Entry.Replay(ctx, "another", parked.EventID)
		require.ErrorIs(t, err, payment.ErrEventNotFound)
	})
	t.Run("what was rejected is judged again when an operator asks", func(t *testing.T) {
		parked := h.Report(t, testhouse.Paid(t, "tx-d", "asked", 100))
		_, err := h.Books.Reject(ctx, h.Tenant, parked.EventID, "not ours")
		require.NoError(t, err)
		h.Create(t, testhouse.Order("asked", 100))
		require.True(t, h.Report(t, testhouse.Paid(t, "tx-d", "asked", 100)).Duplicate, "the channel alone does not undo it")
		_, err = h.Entry.Replay(ctx, h.Tenant, parked.EventID)
		require.NoError(t, err)
		require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	})
	t.Run("a contradiction never books, whatever became of what it contradicts", func(t *testing.T) {
		h.Create(t, testhouse.Order("cf", 100))
		h.Report(t, testhouse.Paid(t, "tx-e", "cf", 100))
		conflict := h.Report(t, testhouse.Paid(t, "tx-e", "cf", 1))
		_, err := h.Books.BookToSuspense(ctx, h.Tenant, conflict.EventID, "x")
		require.ErrorIs(t, err, payment.ErrAlreadyBooked, "the original is about to be credited")
		require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	})
	t.Run("an unreadable body has nothing to book", func(t *testing.T) {
		parked := h.Report(t, []byte("{"))
		_, err := h.Books.BookToSuspense(ctx, h.Tenant, parked.EventID, "x")
		require.ErrorIs(t, err, payment.ErrNothingToBook)
	})
	require.Equal(t, 400, h.Balance(t, "merchant"))
	require.Equal(t, 70, h.Balance(t, "suspense"))
	h.RequireInvariants(t)
}

func TestAParkedEventIsAlertedAtItsDeadlineAndAgainAfterAnother(t *testing.T) {
	t.Parallel()
	h, _ := newHouse(t)
	h.Report(t, testhouse.Paid(t, "tx", "nobody", 100))
	deadline := func() (at time.Time) {
		require.NoError(t, h.Owner.QueryRow(t.Context(), "SELECT next_drive_at FROM channel_events").Scan(&at))
		return at
	}
	for range 2 {
		before := deadline()
		_, err := h.Entry.Redrive(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, deadline(), "not yet")
		h.Clock.Pass(payment.DefaultPlan.Parked)
		_, err = h.Entry.Redrive(t.Context())
		require.NoError(t, err)
		require.Greater(t, deadline().Sub(before), payment.DefaultPlan.Parked-time.Minute, "told, and told again a day later")
	}
}
