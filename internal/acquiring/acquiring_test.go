package acquiring_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

func TestAnAnnouncementOfUnknownResultIsAskedForBeforeItIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	b.fail["prepay"] = errAway
	_, err := b.Acquiring.Prepay(t.Context(), o.ID)
	require.ErrorIs(t, err, errAway)
	require.Equal(t, payment.PrepayPending, *b.read("order-1").PrepayState)
	delete(b.fail, "prepay")
	state, err := b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, payment.PrepayReady, state)
	require.Equal(t, []string{"prepay order-1", "query order-1", "prepay order-1"}, b.called())
	state, err = b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, payment.PrepayReady, state)
	require.Len(t, b.called(), 3, "what is announced is not announced again")
}

// The first answer was lost, and somebody has paid: that is a payment, by the same door as a callback.
func TestAnOrderThatIsFoundPaidWhenItIsAnnouncedAgainIsCredited(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	b.set("order-1", channel.OrderPaid)
	b.refuse["prepay"] = fmt.Errorf("%w: paid", channel.ErrPaid)
	_, err := b.Acquiring.Prepay(t.Context(), o.ID)
	require.ErrorIs(t, err, channel.ErrPaid)
	_, err = b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, []payment.Outcome{payment.Credited}, b.driver.Book(t, b.Books))
	require.Equal(t, payment.Paid, b.State(t, "order-1"))
	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, 1, b.Journals(t))
}

func TestARefusalIsDefiniteAndTheSameRequestTriesAgain(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	b.refuse["prepay"] = &channel.Rejection{Code: "NO_AUTH", Detail: "no such product"}
	state, err := b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, payment.PrepayFailed, state)
	require.Contains(t, *b.read("order-1").PrepayFailure, "NO_AUTH")
	state, err = b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, payment.PrepayFailed, state)
	require.Equal(t, []string{"prepay order-1"}, b.called(), "nobody asked for it again")

	delete(b.refuse, "prepay")
	require.Equal(t, payment.PrepayPending, *b.order("order-1").PrepayState)
	state, err = b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, payment.PrepayReady, state)
}

func TestAnOrderIsNotClosedHereWhileTheChannelDoesNotSaySo(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"query", "close"} {
		b := openBranch(t)
		o := b.order("order-1")
		_, err := b.Acquiring.Prepay(t.Context(), o.ID)
		require.NoError(t, err)
		b.Clock.Pass(payment.DefaultExpiry + time.Minute)
		for _, why := range []error{errAway, &channel.Rejection{Code: "NO_AUTH"}, channel.ErrUnsupported} {
			b.refuse[kind] = why
			_, err = b.Acquiring.Inquire(t.Context(), o.ID)
			require.ErrorIs(t, err, why, kind)
			require.Equal(t, payment.Pending, b.State(t, "order-1"), kind)
		}
		delete(b.refuse, kind)
		state, err := b.Acquiring.Inquire(t.Context(), o.ID)
		require.NoError(t, err)
		require.Equal(t, channel.OrderClosed, state)
		require.Equal(t, "expired", *b.read("order-1").CloseReason)
	}
}

// Paid between the question and the closing: the next question brings the payment.
func TestAnOrderThatIsPaidWhileItIsClosedIsPaid(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	_, err := b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	_, err = b.Orders.Close(t.Context(), b.Tenant, "order-1")
	require.NoError(t, err)
	b.before["close"] = func() { b.set("order-1", channel.OrderPaid) }
	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.ErrorIs(t, err, channel.ErrPaid)
	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, []payment.Outcome{payment.Credited}, b.driver.Book(t, b.Books))
	require.Equal(t, payment.Paid, b.State(t, "order-1"))
}

// A payment that is reported and not booked yet holds a closing up, though the channel said that it closed the order.
func TestAReportedPaymentHoldsAClosingUp(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	_, err := b.Orders.Close(t.Context(), b.Tenant, "order-1")
	require.NoError(t, err)
	b.after["close"] = func() {
		_, err := b.Entry.Report(t.Context(), b.acct, paid("order-1", 9900), b.Clock.Now())
		require.NoError(t, err)
	}
	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.Error(t, err)
	require.Equal(t, []payment.Outcome{payment.Credited}, b.driver.Book(t, b.Books))
	require.Equal(t, payment.Paid, b.State(t, "order-1"))
}

func TestAnEngineThatIsAwayDoesNotHoldTheRedriveUp(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	for i := range 20 {
		b.order(fmt.Sprintf("order-%d", i))
	}
	b.Clock.Pass(11 * time.Minute)
	b.driver.Err = errAway
	started, err := b.Acquiring.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, started)
	require.LessOrEqual(t, b.told.FilterMessageSnippet("the engine did not take").Len(), 3, "each try may take half a second, and the other rows wait")
	b.driver.Err = nil
	b.Clock.Pass(11 * time.Second)
	started, err = b.Acquiring.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 20, started, "none is forgotten")
}

func TestAnOrderThatDoesNotGetClosedIsSomebodysBusiness(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	b.order("order-1")
	b.Clock.Pass(payment.DefaultExpiry + time.Minute)
	alerts := func() int { return b.told.FilterMessageSnippet("do not get closed").Len() }
	_, err := b.Acquiring.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, alerts(), "a minute is no delay")
	b.Clock.Pass(time.Hour)
	_, err = b.Acquiring.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, alerts())
}
