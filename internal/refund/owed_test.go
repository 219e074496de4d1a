package refund_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/tenant"
)

// A refund that failed after it had succeeded is the channel's fact: it is booked whatever the merchant has left.
func TestAFailureAfterSuccessIsReversedWhateverTheBalances(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		fee            int64 // that came back with the refund
		spent          int64 // what the merchant has spent before the refund, and
		spentAfter     int64 // after it
		after, settled string
	}{
		{"the merchant has everything", 2, 0, 0, "merchant 100 held 0, receivable 0; pending 0 refunded 0 NONE", ""},
		{"the merchant has spent all", 2, 0, 42, "merchant 58 held 0, receivable 0; pending 0 refunded 0 NONE", ""},
		{"less was held than the fee that came back", 5, 99, 5, "merchant 0 held 0, receivable -4; pending 0 refunded 0 NONE", "4"},
		{"nothing was held, and nothing of the fee is left", 5, 100, 5, "merchant 0 held 0, receivable -5; pending 0 refunded 0 NONE", "5"},
		{"nothing was held, and some of the fee is left", 5, 100, 2, "merchant 0 held 0, receivable -2; pending 0 refunded 0 NONE", "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			require.NoError(t, tenant.SetPolicy(t.Context(), s.Engine, s.Tenant, tenant.Policy{RefundShortfall: tenant.AllowReceivable}))
			s.paid(t, "o", 100)
			if c.spent > 0 {
				s.spend(t, c.spent)
			}
			s.bank.fee = &c.fee
			s.begin(t, "o", "r", 60)
			require.Equal(t, refund.Succeeded, s.advance(t, "r"))
			s.RequireInvariants(t)
			if c.spentAfter > 0 {
				s.spend(t, c.spentAfter)
			}
			s.bank.settle("r", channel.RefundRefused)
			for range 2 {
				s.tell(t, refundEvent(channel.RefundFailed, "r", "tx-o", 60))
			}
			require.Equal(t, refund.Failed, s.get(t, "r").State)
			require.Zero(t, s.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'PARKED'"))
			require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM journals WHERE kind = 'refund_reversal'"))
			require.Equal(t, c.after, s.stands(t, "o"))
			if c.settled != "" {
				require.Equal(t, c.settled, fmt.Sprint(s.get(t, "r").Owed()))
			}
			s.RequireInvariants(t)
			_, err := s.ask("o", "r2", 100)
			require.NoError(t, err, "all of it is refundable again")
			s.RequireInvariants(t)
		})
	}
}

// Whoever owes for one refund of a payment and gets the money of another back owes that much less, in the same booking.
func TestWhatBecomesFreeIsSetOffAgainstWhatIsOwed(t *testing.T) {
	t.Parallel()
	console := channel.Event{Kind: channel.RefundSuccess, Subject: "c1", TransactionID: "tx-o", Amount: 100, Currency: "CNY"}
	start := func(t *testing.T) *story {
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.hold = true
		s.begin(t, "o", "r", 100)
		s.advance(t, "r")
		return s
	}
	t.Run("ours is refused after one was made in the console", func(t *testing.T) {
		t.Parallel()
		s := start(t)
		s.tell(t, console)
		require.Equal(t, "merchant 100 held 100, receivable -100; pending 100 refunded 100 FULL", s.stands(t, "o"))
		s.bank.settle("r", channel.RefundRefused)
		require.Equal(t, refund.Failed, s.advance(t, "r"))
		require.Equal(t, "merchant 0 held 0, receivable 0; pending 0 refunded 100 FULL", s.stands(t, "o"))
		list, err := refund.List(t.Context(), s.Engine, s.Tenant, refund.Filter{OutTradeNo: "o", Limit: 10})
		require.NoError(t, err)
		require.Zero(t, list[0].Owed())
		require.Zero(t, list[0].Excess, "by now it is within what was captured")
		s.RequireInvariants(t)

		// And should the one of the console fail as well, nothing is owed, and everything is there.
		s.bank.set(func(b *bank) {
			b.refunds[list[0].OutRefundNo] = &banked{channel.Refund{OutRefundNo: list[0].OutRefundNo, TransactionID: "tx-o", Amount: 100}, channel.RefundRefused}
		})
		s.tell(t, channel.Event{Kind: channel.RefundFailed, Subject: "c1", TransactionID: "tx-o", Amount: 100, Currency: "CNY"})
		require.Equal(t, "merchant 100 held 0, receivable 0; pending 0 refunded 0 NONE", s.stands(t, "o"))
		s.RequireInvariants(t)
	})
	t.Run("ours fails after it had succeeded", func(t *testing.T) {
		t.Parallel()
		s := start(t)
		s.bank.settle("r", channel.RefundSucceeded)
		s.advance(t, "r")
		s.tell(t, console)
		require.Equal(t, "merchant 0 held 0, receivable -100; pending 0 refunded 200 FULL", s.stands(t, "o"))
		s.bank.settle("r", channel.RefundRefused)
		s.tell(t, refundEvent(channel.RefundFailed, "r", "tx-o", 100))
		require.Equal(t, "merchant 0 held 0, receivable 0; pending 0 refunded 100 FULL", s.stands(t, "o"))
		s.RequireInvariants(t)
	})
	t.Run("of money in suspense", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		second := s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx-2", TransactionID: "tx-2", OutTradeNo: "o", Amount: 100, Currency: "CNY"})
		require.Equal(t, payment.SecondPayment, s.outcome(t, second[0].EventID))
		s.bank.hold = true
		r, _, err := s.Refunds.Return(t.Context(), s.Tenant, second[0].EventID, "twice", false)
		require.NoError(t, err)
		s.advance(t, r.OutRefundNo)
		s.tell(t, channel.Event{Kind: channel.RefundSuccess, Subject: "c1", TransactionID: "tx-2", Amount: 100, Currency: "CNY"})
		require.Equal(t, -100, s.Balance(t, "receivable"))
		s.bank.settle(r.OutRefundNo, channel.RefundRefused)
		require.Equal(t, refund.Failed, s.advance(t, r.OutRefundNo))
		require.Zero(t, s.Balance(t, "receivable"))
		require.Zero(t, s.Balance(t, "suspense"))
		s.RequireInvariants(t)
	})
}

func (s *story) outcome(t *testing.T, eventID int64) (o payment.Outcome) {
	t.Helper()
	require.NoError(t, s.Owner.QueryRow(t.Context(), "SELECT outcome FROM channel_events WHERE id = $1", eventID).Scan(&o))
	return o
}
