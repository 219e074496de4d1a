package refund_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/refund"
)

// A channel may carry out a call and not know of it for some seconds; a second call is refused then, and the question finds
// nothing. Whoever believed that would release money that is on its way to the payer.
func TestARefusalRightAfterACallOfUnknownOutcomeReleasesNothing(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.begin(t, "o", "r", 60)
	s.bank.set(func(b *bank) { b.drop, b.late = true, true })
	require.Equal(t, refund.Unknown, s.advance(t, "r"))
	s.bank.set(func(b *bank) { b.drop, b.reject = false, "TRADE_HAS_CLOSE" })
	s.Clock.Pass(3 * time.Second)
	require.Equal(t, refund.Unknown, s.advance(t, "r"))
	require.Equal(t, "merchant 100 held 60, receivable 0; pending 60 refunded 0 NONE", s.stands(t, "o"))
	s.bank.set(func(b *bank) { b.late = false })
	s.Clock.Pass(10 * time.Second)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, []string{"refund r", "query r", "refund r", "query r", "query r"}, s.bank.heard())
	s.RequireInvariants(t)
}

// Two workers have the same step, as when one was taken for dead: the refusal of the one says nothing about the other's call.
func TestARefusalIsNotBelievedWhereSomebodyElseHasCalledSince(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	r := s.begin(t, "o", "r", 60)
	s.bank.set(func(b *bank) {
		b.reject, b.hold = "BUSY", true
		b.before = func() {
			s.bank.set(func(b *bank) { b.before, b.reject = nil, "" })
			s.Clock.Pass(time.Minute)
			require.Equal(t, refund.Pending, s.advance(t, "r"), "the other one's call is taken")
			s.bank.set(func(b *bank) { b.reject = "BUSY" })
		}
	})
	_, err := s.Refunds.Advance(t.Context(), r.ID, time.Minute)
	require.NoError(t, err)
	require.NotEqual(t, refund.Failed, s.get(t, "r").State)
	require.Equal(t, "merchant 100 held 60, receivable 0; pending 60 refunded 0 NONE", s.stands(t, "o"))
	s.bank.settle("r", channel.RefundSucceeded)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	s.RequireInvariants(t)
}
