package payment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func newHouse(t *testing.T) (*testhouse.House, *testhouse.Deliveries) {
	t.Helper()
	driver := &testhouse.Deliveries{}
	return testhouse.New(t, driver), driver
}

func TestTheSameCallbackThreeTimesIsOneCredit(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 9900))
	body := testhouse.Paid(t, "tx", "o", 9900)

	first := h.Report(t, body)
	require.False(t, first.Duplicate)
	require.Equal(t, payment.Received, first.State)
	require.True(t, h.Report(t, body).Duplicate)
	require.Len(t, driver.Take(), 1, "only the request that inserted the event delivers it")

	applied, err := h.Books.Apply(t.Context(), first.EventID)
	require.NoError(t, err)
	require.Equal(t, payment.Applied{EventState: payment.Done, Outcome: payment.Credited, PaymentState: payment.Paid}, applied)

	again := h.Report(t, body)
	require.True(t, again.Duplicate)
	require.Equal(t, payment.Done, again.State)
	require.Empty(t, driver.Take(), "a duplicate of a DONE event costs no engine call")

	require.Equal(t, 9900, h.Balance(t, "merchant"))
	require.Equal(t, 1, h.Journals(t))
	require.Equal(t, []string{"DONE CREDITED"}, h.Events(t, "o"))
	h.RequireInvariants(t)
}

func TestApplyingTwiceAtOnceBooksOnce(t *testing.T) {
	t.Parallel()
	h, _ := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	id := h.Report(t, testhouse.Paid(t, "tx", "o", 100)).EventID
	var group errgroup.Group
	for range 20 {
		group.Go(func() error {
			applied, err := h.Books.Apply(context.Background(), id)
			if err == nil && applied.Outcome != payment.Credited {
				return fmt.Errorf("outcome %s", applied.Outcome)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 100, h.Balance(t, "merchant"))
	h.RequireInvariants(t)
}

func TestFiftyAtOnceAreOneEventAndOneDelivery(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	body := testhouse.Paid(t, "tx", "o", 100)
	var fresh atomic.Int64
	var group errgroup.Group
	for range 50 {
		group.Go(func() error {
			results, err := h.Entry.Report(context.Background(), h.Account, body, time.Now())
			if err == nil && !results[0].Duplicate {
				fresh.Add(1)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(1), fresh.Load())
	require.Len(t, driver.Take(), 1)
	require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM channel_receipts"))
}

func TestEveryDistinctBodyIsKept(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	body := testhouse.Paid(t, "tx", "o", 100)
	h.Report(t, body)
	driver.Book(t, h.Books)
	// The same fact in other bytes, as a channel sends it again with another time or more white space.
	for i := range 3 {
		require.True(t, h.Report(t, append(body, []byte("   ")[:i]...)).Duplicate)
	}
	require.Equal(t, 3, h.Count(t, "SELECT count(DISTINCT body) FROM channel_receipts"))
	require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM channel_events"))
	require.Equal(t, 100, h.Balance(t, "merchant"))
	_, err := h.Engine.Exec(t.Context(), "UPDATE channel_receipts SET body = ''")
	require.ErrorContains(t, err, "permission denied")
}

func TestAWrongReportNeverTakesARightOnesPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		amount   int64
		currency string
		outcome  string
	}{
		"too little":       {9899, "CNY", "PARKED AMOUNT_MISMATCH"},
		"too much":         {math.MaxInt64, "CNY", "PARKED AMOUNT_MISMATCH"},
		"another currency": {9900, "USD", "PARKED CURRENCY_MISMATCH"},
		"no such currency": {9900, "ZZZ", "PARKED CURRENCY_MISMATCH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, driver := newHouse(t)
			h.Create(t, testhouse.Order("o", 9900))
			wrong := testhouse.Body(t, "payment.succeeded", "tx", "o", c.amount, c.currency)
			require.Equal(t, payment.Parked, h.Report(t, wrong).State)
			require.True(t, h.Report(t, wrong).Duplicate)
			require.Equal(t, []string{c.outcome}, h.Events(t, "o"))
			require.Empty(t, driver.Take())

			// The right report of the same transaction is credited.
			require.Equal(t, payment.Received, h.Report(t, testhouse.Paid(t, "tx", "o", 9900)).State)
			require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))

			// The wrong one again contradicts what was accepted: an item of its own, and nothing moves.
			conflict := h.Report(t, wrong)
			require.Equal(t, payment.Conflict, conflict.Outcome)
			require.True(t, h.Report(t, wrong).Duplicate, "the same contradiction again is not another item")
			require.Equal(t, []string{"DONE CREDITED", "PARKED CONFLICT"}, h.Events(t, "o"))
			require.Empty(t, driver.Take())
			require.Equal(t, 9900, h.Balance(t, "merchant"))
			h.RequireInvariants(t)
		})
	}
}

func TestAConflictBeforeBookingDoesNotChangeWhatIsBooked(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	h.Report(t, testhouse.Paid(t, "tx", "o", 100))
	require.Equal(t, payment.Conflict, h.Report(t, testhouse.Paid(t, "tx", "o", 1)).Outcome)
	require.Equal(t, payment.Conflict, h.Report(t, testhouse.Paid(t, "tx", "another", 100)).Outcome)
	require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	require.Equal(t, 100, h.Balance(t, "merchant"))
	h.RequireInvariants(t)
}

func TestACallbackBeforeItsOrderIsMatchedByItself(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	require.Equal(t, payment.UnknownOrder, h.Report(t, testhouse.Paid(t, "tx", "o", 100)).Outcome)
	require.Equal(t, payment.UnknownOrder, h.Report(t, testhouse.Paid(t, "tx-wrong", "o", 5)).Outcome)
	require.True(t, h.Report(t, testhouse.Paid(t, "tx", "o", 100)).Duplicate, "sent again it is a duplicate, and alerts nobody")
	h.Create(t, testhouse.Order("o", 100))
	require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	require.Equal(t, []string{"DONE CREDITED", "PARKED AMOUNT_MISMATCH"}, h.Events(t, "o"))
	h.RequireInvariants(t)
}

func TestOrderAndCallbackAtOnceCannotMissEachOther(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	for i := range 60 {
		order := fmt.Sprint("o", i)
		body := testhouse.Paid(t, "tx"+order, order, 100)
		var group errgroup.Group
		group.Go(func() error {
			_, err := h.Entry.Report(context.Background(), h.Account, body, time.Now())
			return err
		})
		group.Go(func() error {
			if _, _, err := h.Orders.Create(context.Background(), h.Tenant, testhouse.Order(order, 100), time.Now()); err != nil {
				return err
			}
			return h.Entry.OrderCreated(context.Background(), h.Tenant, order)
		})
		require.NoError(t, group.Wait())
		require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books), "order %d", i)
	}
	h.RequireInvariants(t)
}

func TestAnOrderWhoseMakerDiedIsMatchedByTheRedrive(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Report(t, testhouse.Paid(t, "tx", "o", 100))
	_, _, err := h.Orders.Create(t.Context(), h.Tenant, testhouse.Order("o", 100), time.Now())
	require.NoError(t, err) // and no OrderCreated
	_, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
}

func TestMoneyThatNoOrderWaitsForIsBookedToSuspenseOnce(t *testing.T) {
	t.Parallel()
	t.Run("a second payment", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		h.Create(t, testhouse.Order("o", 100))
		h.Report(t, testhouse.Paid(t, "tx1", "o", 100))
		h.Report(t, testhouse.Paid(t, "tx2", "o", 100))
		require.Equal(t, []payment.Outcome{payment.Credited, payment.SecondPayment}, driver.Book(t, h.Books))
		h.Report(t, testhouse.Paid(t, "tx2", "o", 100))
		h.Report(t, testhouse.Paid(t, "tx3", "o", 100)) // reported after the order was paid
		require.Equal(t, []payment.Outcome{payment.SecondPayment}, driver.Book(t, h.Books))
		require.Equal(t, 100, h.Balance(t, "merchant"))
		require.Equal(t, 200, h.Balance(t, "suspense"))
		h.RequireInvariants(t)
	})
	t.Run("a late payment", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		h.Create(t, testhouse.Order("o", 100))
		_, err := h.Orders.Close(t.Context(), h.Tenant, "o")
		require.NoError(t, err)
		for range 3 {
			h.Report(t, testhouse.Paid(t, "tx", "o", 100))
		}
		require.Equal(t, []payment.Outcome{payment.LatePayment}, driver.Book(t, h.Books))
		require.Equal(t, payment.Closed, h.State(t, "o"), "nothing reopens an order")
		require.Zero(t, h.Balance(t, "merchant"))
		require.Equal(t, 100, h.Balance(t, "suspense"))
		h.RequireInvariants(t)
	})
}

func TestRacingEventsOfTwoKinds(t *testing.T) {
	t.Parallel()
	closed := func(t *testing.T) []byte { return testhouse.Body(t, "payment.closed", "tx", "o", 100, "CNY") }
	t.Run("paid is booked first", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		h.Create(t, testhouse.Order("o", 100))
		h.Report(t, testhouse.Paid(t, "tx", "o", 100))
		h.Report(t, closed(t))
		require.Equal(t, []payment.Outcome{payment.Credited, payment.Stale}, driver.Book(t, h.Books))
		require.Equal(t, payment.Paid, h.State(t, "o"))
		require.Equal(t, payment.Stale, h.Report(t, testhouse.Body(t, "payment.failed", "tx", "o", 100, "CNY")).Outcome)
		h.RequireInvariants(t)
	})
	t.Run("closed is booked first, while paid is reported", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		h.Create(t, testhouse.Order("o", 100))
		h.Report(t, closed(t))
		h.Report(t, testhouse.Paid(t, "tx", "o", 100))
		require.Equal(t, []payment.Outcome{payment.Stale, payment.Credited}, driver.Book(t, h.Books), "the payment that is here wins")
		h.RequireInvariants(t)
	})
	t.Run("closed is booked before paid is reported", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		h.Create(t, testhouse.Order("o", 100))
		h.Report(t, closed(t))
		require.Equal(t, []payment.Outcome{payment.ClosedOrder}, driver.Book(t, h.Books))
		h.Report(t, testhouse.Paid(t, "tx", "o", 100))
		require.Equal(t, []payment.Outcome{payment.LatePayment}, driver.Book(t, h.Books))
		require.Equal(t, 100, h.Balance(t, "suspense"))
		h.RequireInvariants(t)
	})
	t.Run("a failed attempt never blocks a later success", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		h.Create(t, testhouse.Order("o", 100))
		require.Equal(t, payment.AttemptFailed, h.Report(t, testhouse.Body(t, "payment.failed", "tx", "o", 100, "CNY")).Outcome)
		h.Report(t, testhouse.Paid(t, "tx", "o", 100))
		require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	})
	t.Run("both booked at once, many times over", func(t *testing.T) {
		t.Parallel()
		h, driver := newHouse(t)
		for i := range 30 {
			order := fmt.Sprint("o", i)
			h.Create(t, testhouse.Order(order, 100))
			h.Report(t, testhouse.Paid(t, "tx"+order, order, 100))
			h.Report(t, testhouse.Body(t, "payment.closed", "tx"+order, order, 100, "CNY"))
			var group errgroup.Group
			for _, d := range driver.Take() {
				group.Go(func() error {
					_, err := h.Books.Apply(context.Background(), d.EventID)
					return err
				})
			}
			require.NoError(t, group.Wait())
		}
		require.Equal(t, 3000, h.Balance(t, "merchant")+h.Balance(t, "suspense"))
		h.RequireInvariants(t)
	})
}

func TestPaidAgainAYearLaterIsADuplicate(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	h.Report(t, testhouse.Paid(t, "tx", "o", 100))
	driver.Book(t, h.Books)
	h.Clock.Pass(365 * 24 * time.Hour)
	require.True(t, h.Report(t, append(testhouse.Paid(t, "tx", "o", 100), '\n')).Duplicate)
	require.Empty(t, driver.Take())
	require.Equal(t, 1, h.Journals(t))
}

func TestUnusableBodiesAreKeptAndParked(t *testing.T) {
	t.Parallel()
	h, _ := newHouse(t)
	for _, body := range []string{"", "{", `{"type":"payment.succeeded","data":{"amount":1.5}}`, "\x00\xff"} {
		first := h.Report(t, []byte(body))
		require.Equal(t, payment.Unreadable, first.Outcome)
		require.Equal(t, channel.RawKey([]byte(body)), first.Key)
		require.True(t, h.Report(t, []byte(body)).Duplicate)
	}
	require.Equal(t, payment.UnsupportedType, h.Report(t, []byte(`{"type":"customer.created"}`)).Outcome)
	require.Equal(t, payment.UnknownRefund, h.Report(t, []byte(`{"type":"refund.succeeded","data":{"refund_id":"r","amount":1,"currency":"CNY"}}`)).Outcome)
	require.Equal(t, 6, h.Count(t, "SELECT count(*) FROM channel_receipts"))
	h.RequireInvariants(t)
}

func TestOneChannelAccountDoesNotPayAnothersOrder(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	second := h.AddAccount(t, h.Tenant, "second-"+h.Tenant, testhouse.NewSecret())
	bound := testhouse.Order("o", 100)
	bound.Channel, bound.Account = "standard", second.Name
	h.Create(t, bound)
	require.Equal(t, payment.ContextMismatch, h.Report(t, testhouse.Paid(t, "tx", "o", 100)).Outcome)

	_, err := h.Entry.Report(t.Context(), second, testhouse.Paid(t, "tx", "o", 100), time.Now())
	require.NoError(t, err)
	require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books), "the same number at another account is another key")

	unnamed := testhouse.Order("o2", 100)
	unnamed.Channel = "standard"
	_, _, err = h.Orders.Create(t.Context(), h.Tenant, unnamed, time.Now())
	require.ErrorIs(t, err, payment.ErrAmbiguousAccount)
	unnamed.Account = "none"
	_, _, err = h.Orders.Create(t.Context(), h.Tenant, unnamed, time.Now())
	require.ErrorIs(t, err, payment.ErrUnknownAccount)
	h.RequireInvariants(t)
}

func TestAnEngineThatIsAwayDelaysAndLosesNothing(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	driver.Err = errors.New("away")
	for i := range 3 {
		order := fmt.Sprint("o", i)
		h.Create(t, testhouse.Order(order, 100))
		require.Equal(t, payment.Received, h.Report(t, testhouse.Paid(t, "tx"+order, order, 100)).State, "stored is enough to acknowledge")
	}
	moved, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, moved, "not due yet")
	h.Clock.Pass(payment.DefaultPlan.Retry)
	_, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)

	driver.Err = nil
	h.Clock.Pass(payment.DefaultPlan.Retry)
	moved, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, moved, "the more often it failed, the later it is tried")
	h.Clock.Pass(payment.DefaultPlan.Retry)
	moved, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, moved)
	require.Equal(t, []payment.Outcome{payment.Credited, payment.Credited, payment.Credited}, driver.Book(t, h.Books))
	h.RequireInvariants(t)
}

func TestAnEventThatIsRefusedAgainAndAgainIsNeverLaterThanItsDeadline(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	driver.Err = errors.New("refused")
	h.Create(t, testhouse.Order("o", 100))
	h.Report(t, testhouse.Paid(t, "tx", "o", 100))
	for range 10 {
		h.Clock.Pass(payment.DefaultPlan.Received)
		_, err := h.Entry.Redrive(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 10, h.Count(t, "SELECT drives FROM channel_events"), "each deadline is a try")
	driver.Err = nil
	h.Clock.Pass(payment.DefaultPlan.Received)
	moved, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	driver.Book(t, h.Books)
	h.RequireInvariants(t)
}

// silent is a driver that does not answer while it is away.
type silent struct {
	*testhouse.Deliveries
	away atomic.Bool
}

func (s *silent) Deliver(ctx context.Context, d payment.Delivery) error {
	if s.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Deliveries.Deliver(ctx, d)
}

func TestALongOutageOfTheEngineIsNotHeldAgainstTheEvents(t *testing.T) {
	t.Parallel()
	driver := &silent{Deliveries: &testhouse.Deliveries{}}
	driver.away.Store(true)
	h := testhouse.New(t, driver)
	for i := range 4 {
		order := fmt.Sprint("o", i)
		h.Create(t, testhouse.Order(order, 100))
		require.Equal(t, payment.Received, h.Report(t, testhouse.Paid(t, "tx"+order, order, 100)).State)
	}
	for range 6 { // more tries than make an event stuck
		h.Clock.Pass(payment.DefaultPlan.Retry)
		moved, err := h.Entry.Redrive(t.Context())
		require.NoError(t, err)
		require.Zero(t, moved)
	}
	require.Zero(t, h.Count(t, "SELECT max(drives) FROM channel_events"), "what never arrived is no delivery")

	driver.away.Store(false)
	h.Clock.Pass(payment.DefaultPlan.Retry)
	moved, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, moved, "when it is back, all are delivered at the next try")
	for _, d := range driver.Take() {
		require.False(t, d.Alone, "as their orders' own events")
		_, err := h.Books.Apply(t.Context(), d.EventID)
		require.NoError(t, err)
	}
	require.Equal(t, 4, h.Journals(t))
	h.RequireInvariants(t)
}

func TestALostSignalIsRedrivenAtTheDeadlineAndByARestedDuplicate(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	body := testhouse.Paid(t, "tx", "o", 100)
	h.Report(t, body)
	require.Len(t, driver.Take(), 1) // taken, and lost

	h.Clock.Pass(payment.DefaultPlan.Resume)
	h.Report(t, body)
	h.Report(t, body)
	require.Len(t, driver.Take(), 1, "one of the duplicates resumes the rested event")

	h.Clock.Pass(payment.DefaultPlan.Received)
	_, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	due := driver.Take()
	require.Len(t, due, 1)
	require.True(t, due[0].Resume, "the re-drive may start a flow that was ended")
	_, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Empty(t, driver.Take(), "claimed until its next deadline")
}

func TestRedriveByManyProcessesDeliversEachOnce(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	for i := range 40 {
		order := fmt.Sprint("o", i)
		h.Create(t, testhouse.Order(order, 100))
		h.Report(t, testhouse.Paid(t, "tx"+order, order, 100))
	}
	driver.Take()
	h.Clock.Pass(payment.DefaultPlan.Received)
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			_, err := h.Entry.Redrive(context.Background())
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, driver.Take(), 40)
}

// refusing is a driver that does not take one event.
type refusing struct {
	*testhouse.Deliveries
	id atomic.Int64
}

func (r *refusing) Deliver(ctx context.Context, d payment.Delivery) error {
	if d.EventID == r.id.Load() && !d.Alone {
		return errors.New("exceeded workflow execution limit for signal events")
	}
	return r.Deliveries.Deliver(ctx, d)
}

func TestOneEventThatTheEngineRefusesDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	driver := &refusing{Deliveries: &testhouse.Deliveries{}}
	h := testhouse.New(t, driver)
	for i := range 6 {
		order := fmt.Sprint("o", i)
		h.Create(t, testhouse.Order(order, 100))
		id := h.Report(t, testhouse.Paid(t, "tx"+order, order, 100)).EventID
		if i == 0 {
			driver.id.Store(id)
		}
	}
	driver.Take()
	h.Clock.Pass(payment.DefaultPlan.Received)
	_, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Len(t, driver.Book(t, h.Books), 5)
	require.Equal(t, payment.Pending, h.State(t, "o0"))
	// After some deliveries it goes to a flow of its own.
	for range 8 {
		h.Clock.Pass(time.Hour)
		_, err := h.Entry.Redrive(t.Context())
		require.NoError(t, err)
	}
	require.NotEmpty(t, driver.Book(t, h.Books))
	require.Equal(t, payment.Paid, h.State(t, "o0"))
	h.RequireInvariants(t)
}

func TestWhatTheBooksCannotTakeIsParkedAndNotTriedForEver(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	for i, amount := range []int64{1<<62 - 5, 10} {
		order := fmt.Sprint("o", i)
		h.Create(t, testhouse.Order(order, amount))
		h.Report(t, testhouse.Paid(t, "tx"+order, order, amount))
	}
	require.Equal(t, []payment.Outcome{payment.Credited, payment.Unbookable}, driver.Book(t, h.Books))
	require.Equal(t, []string{"PARKED UNBOOKABLE"}, h.Events(t, "o1"))
	require.Equal(t, payment.Pending, h.State(t, "o1"))
	h.RequireInvariants(t)
}

func TestAThousandDuplicatesOfAnEventThatWaitsTakeNoLock(t *testing.T) {
	t.Parallel()
	h, _ := newHouse(t)
	h.Create(t, testhouse.Order("o", 100))
	body := testhouse.Paid(t, "tx", "o", 100)
	h.Report(t, body)
	// Somebody holds the event's row, as a booking does: a duplicate is answered from a read all the same.
	tx, err := h.Owner.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM channel_events FOR UPDATE")
	require.NoError(t, err)
	bounded, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(100)
	for range 1000 {
		group.Go(func() error {
			results, err := h.Entry.Report(bounded, h.Account, body, time.Now())
			if err == nil && !results[0].Duplicate {
				err = errors.New("not a duplicate")
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
}

func TestABodyOfManyEventsIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	h, _ := newHouse(t)
	body := []byte(`{"type":"share.result","data":{"share_id":"s","out_order_no":"o","currency":"CNY","receivers":[` +
		`{"account":"b","amount":1,"state":"SUCCESS"},{"account":"a","amount":2,"state":"SUCCESS"}]}}`)
	for _, duplicate := range []bool{false, true} {
		results, err := h.Entry.Report(t.Context(), h.Account, body, time.Now())
		require.NoError(t, err)
		require.Len(t, results, 2)
		require.Equal(t, duplicate, results[0].Duplicate)
	}
	require.Equal(t, 2, h.Count(t, "SELECT count(*) FROM channel_events WHERE outcome = 'UNKNOWN_SHARE'"))
	h.RequireInvariants(t)
}

// slow is a driver that takes an event, but only after the caller has given up waiting.
type slow struct {
	*testhouse.Deliveries
	answer chan struct{}
	cutOff atomic.Bool
}

func (s *slow) Deliver(ctx context.Context, d payment.Delivery) error {
	select {
	case <-s.answer:
	case <-ctx.Done():
		s.cutOff.Store(true)
		return ctx.Err()
	}
	return s.Deliveries.Deliver(ctx, d)
}

// The engine may have begun what it has not answered yet: with the call cut off nobody would take the first task.
func TestAHandOverThatNobodyWaitsForGoesOn(t *testing.T) {
	t.Parallel()
	driver := &slow{Deliveries: &testhouse.Deliveries{}, answer: make(chan struct{})}
	h := testhouse.New(t, driver)
	h.Create(t, testhouse.Order("o", 100))
	id := h.Report(t, testhouse.Paid(t, "tx", "o", 100)).EventID
	require.Empty(t, driver.Take(), "the callback is answered before the engine has")
	close(driver.answer)
	var taken []payment.Delivery
	require.Eventually(t, func() bool { taken = append(taken, driver.Take()...); return len(taken) == 1 }, 10*time.Second, time.Millisecond)
	require.Equal(t, id, taken[0].EventID)
	require.False(t, driver.cutOff.Load())
}
