package stripe_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
)

func refundFor(transaction, no string, amount int64) channel.Refund {
	return channel.Refund{OutRefundNo: no, TransactionID: transaction, OutTradeNo: "order-1", Amount: amount, Total: 1000, Currency: "USD", Reason: "the book was torn"}
}

func TestARefundIsDoneOnceWhateverIsForgotten(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	r := refundFor(id, "refund-1", 400)

	standing, err := s.QueryRefund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, channel.RefundUnknown, standing.State)

	first, err := s.Refund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, channel.RefundSucceeded, first.State)
	require.Nil(t, first.Fee, "Stripe keeps its fee, and no notice of a refund tells of one")
	byCallback, _ := s.told("stripe:" + first.RefundID + ":REFUND_SUCCESS")
	require.Equal(t, byCallback, s.said(t, first.Body)[0])
	require.Equal(t, "refund-1", byCallback.OutNo)

	s.sim.ForgetKeys()
	again, err := s.Refund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, first.RefundID, again.RefundID)
	for _, known := range []string{"", first.RefundID} {
		r.RefundID = known
		standing, err = s.QueryRefund(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, channel.RefundSucceeded, standing.State)
		require.Equal(t, byCallback, s.said(t, standing.Body)[0])
	}
	require.Equal(t, int64(400), s.sim.Orders()[0].Refunded)
	require.Equal(t, 1, s.calls("refund"))

	other := refundFor(id, "refund-1", 401)
	_, err = s.Refund(t.Context(), other)
	definite(t, err, "refund_differs")

	second, err := s.Refund(t.Context(), refundFor(id, "refund-2", 600))
	require.NoError(t, err)
	require.NotEqual(t, first.RefundID, second.RefundID, "two refunds of one payment both apply")
	require.Equal(t, int64(1000), s.sim.Orders()[0].Refunded)
	_, err = s.Refund(t.Context(), refundFor(id, "refund-3", 1))
	definite(t, err, "charge_already_refunded")
}

func TestARefundThatIsHeldAndThenEnds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	s.misbehave(simulator.Faults{Hold: true})
	for no, end := range map[string]string{"good": "SUCCEEDED", "bad": "FAILED"} {
		r := refundFor(id, no, 100)
		standing, err := s.Refund(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, channel.RefundPending, standing.State)
		require.Empty(t, standing.Body, "pending is no end")
		r.RefundID = standing.RefundID
		require.NoError(t, s.sim.SettleRefund(no, end))
		standing, err = s.QueryRefund(t.Context(), r)
		require.NoError(t, err)
		kind := map[string]string{"SUCCEEDED": "REFUND_SUCCESS", "FAILED": "REFUND_FAILED"}[end]
		byCallback, times := s.told("stripe:" + r.RefundID + ":" + kind)
		require.Positive(t, times)
		require.Equal(t, byCallback, s.said(t, standing.Body)[0])
	}
	require.Error(t, s.sim.SettleRefund("good", "ABNORMAL"))
}

func TestARefundThatFailsAfterItSucceeded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	standing, err := s.Refund(t.Context(), refundFor(id, "refund-1", 400))
	require.NoError(t, err)
	require.Equal(t, channel.RefundSucceeded, standing.State)
	require.NoError(t, s.sim.SettleRefund("refund-1", "FAILED"))
	standing, err = s.QueryRefund(t.Context(), refundFor(id, "refund-1", 400))
	require.NoError(t, err)
	require.Equal(t, channel.RefundRefused, standing.State)
	require.Equal(t, "lost_or_stolen_card", standing.Reason)
	_, succeeded := s.told("stripe:" + standing.RefundID + ":REFUND_SUCCESS")
	_, failed := s.told("stripe:" + standing.RefundID + ":REFUND_FAILED")
	require.Positive(t, succeeded)
	require.Positive(t, failed, "the failure is an event of its own")
	require.Zero(t, s.sim.Orders()[0].Refunded)
}

func TestARefundThatStripeCannotDo(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o, id := s.sell(t, order("order-1"))
	_, err := s.Refund(t.Context(), refundFor(id, "refund-1", 1001))
	require.True(t, channel.Definite(err), "%v", err)
	_, err = s.Refund(t.Context(), refundFor("pi_unknown", "refund-0", 1))
	definite(t, err, "resource_missing")

	// The transaction is not known yet: the reference leads to it.
	r := refundFor("", "refund-2", 1)
	r.Reference = o.Reference
	_, err = s.Refund(t.Context(), r)
	require.NoError(t, err)
	r = refundFor("", "refund-3", 1)
	_, err = s.Refund(t.Context(), r)
	require.NoError(t, err, "our number does too")
	r.OutTradeNo = "order-9"
	_, err = s.Refund(t.Context(), r)
	unknown(t, err, "Search may be behind")
}

func TestReasonsThatStripeTakesAndOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	for i, reason := range []string{"duplicate", "", strings.Repeat("书", 600)} {
		r := refundFor(id, string(rune('a'+i)), 1)
		r.Reason = reason
		_, err := s.Refund(t.Context(), r)
		require.NoError(t, err)
	}
}

func TestManyCallsOfOneRefundAtOnceAreOneRefund(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	var wg sync.WaitGroup
	ids := make(chan string, 20)
	for range 20 {
		wg.Go(func() {
			standing, err := s.Refund(t.Context(), refundFor(id, "refund-1", 400))
			if err == nil {
				ids <- standing.RefundID
			}
		})
	}
	wg.Wait()
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	require.Len(t, seen, 1)
	require.Equal(t, int64(400), s.sim.Orders()[0].Refunded)
}
