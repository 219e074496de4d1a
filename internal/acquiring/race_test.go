package acquiring_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

// inFlight begins an announcement and holds it on its way to the channel until arrive is called, which waits for its end.
func (b *branch) inFlight(o payment.Payment) (arrive func() (state string, err error)) {
	b.t.Helper()
	began, sent, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.before["prepay"] = func() {
		close(began)
		<-sent
	}
	var state string
	var err error
	go func() {
		defer close(ended)
		state, err = b.Acquiring.Prepay(context.WithoutCancel(b.t.Context()), o.ID)
	}()
	<-began
	delete(b.before, "prepay")
	return func() (string, error) {
		close(sent)
		<-ended
		return state, err
	}
}

// An announcement arrives after the channel was asked to close the order, which it did not know then, and its answer is kept
// before the order is closed here. What a payer was given must not stay payable behind a closed order.
func TestAnAnnouncementThatOvertakesAClosingIsClosedAtTheChannelToo(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	arrive := b.inFlight(o)
	_, err := b.Orders.Close(t.Context(), b.Tenant, "order-1")
	require.NoError(t, err)
	b.after["close"] = func() {
		delete(b.after, "close")
		state, err := arrive()
		require.NoError(t, err)
		require.Equal(t, payment.PrepayReady, state)
	}
	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.Error(t, err, "what the channel said was not of this order any more")
	require.Equal(t, payment.Pending, b.State(t, "order-1"))

	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, payment.Closed, b.State(t, "order-1"))
	require.Equal(t, channel.OrderClosed, b.state("order-1"), "nobody can pay what is closed here")
}

// The other way round: the order is closed here first, and the answer gives nobody anything to pay with.
func TestAnAnnouncementThatIsOvertakenByAClosingGivesNobodyAnything(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	arrive := b.inFlight(o)
	_, err := b.Orders.Close(t.Context(), b.Tenant, "order-1")
	require.NoError(t, err)
	_, err = b.Acquiring.Inquire(t.Context(), o.ID)
	require.NoError(t, err)
	state, err := arrive()
	require.NoError(t, err)
	require.Empty(t, state)
	require.Equal(t, payment.Closed, b.State(t, "order-1"))
	require.Empty(t, b.read("order-1").ChannelData)
	require.Equal(t, channel.OrderClosed, b.state("order-1"))
}

func TestAnOrderWhoseTimeIsOverIsNotAnnounced(t *testing.T) {
	t.Parallel()
	b := openBranch(t)
	o := b.order("order-1")
	b.Clock.Pass(payment.DefaultExpiry)
	state, err := b.Acquiring.Prepay(t.Context(), o.ID)
	require.NoError(t, err)
	require.Empty(t, state)
	require.Empty(t, b.called())
}
