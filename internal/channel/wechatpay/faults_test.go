package wechatpay_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// TestAFaultIsUnknownAndTheSameCallAgainDoesItOnce plays each fault on each call, and then the call again.
func TestAFaultIsUnknownAndTheSameCallAgainDoesItOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Faults{
		"the answer never arrives":             {Drop: 9}, // a query may be tried again by net/http itself
		"the answer is signed for other bytes": {Garble: 9},
		"the channel fails":                    {Refuse: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, nil)
			ctx := t.Context()
			transaction := h.shared(t, "order-1", 1000)
			kept := h.order("order-2", 100)
			again := h.order("order-3", 100)
			_, err := h.Prepay(ctx, kept)
			require.NoError(t, err)
			s := shareOf(transaction, "share-1", channel.ShareReceiver{Account: "1900000110", Amount: 100})
			back := channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", Account: "1900000110", Amount: 60, Currency: "CNY"}
			_, err = h.Share(ctx, s)
			require.NoError(t, err)
			today := time.Now().In(time.FixedZone("UTC+8", 8*60*60))
			calls := everyCall(ctx, h, again, h.refundOf(transaction, "refund-1", 10, 1000), shareOf(transaction, "share-2", s.Receivers...), back)
			calls["close"] = func() error { return h.Close(ctx, kept) }
			calls["query_share"] = func() error { _, err := h.QueryShare(ctx, s); return err }
			calls["finish_share"] = func() error { _, err := h.FinishShare(ctx, shareOf(transaction, "finish-1")); return err }
			calls["bill"] = func() error {
				file, err := h.Bill(ctx, channel.Date{Year: today.Year(), Month: today.Month(), Day: today.Day()})
				if err == nil {
					err = file.Close()
				}
				return err
			}
			// What a call does is there for the next.
			for _, kind := range []string{"prepay", "query", "close", "refund", "query_refund", "share", "query_share", "finish_share", "return_share", "query_return", "bill"} {
				f := fault
				f.Only = kind
				h.misbehave(f)
				err := calls[kind]()
				require.Error(t, err, kind)
				require.False(t, channel.Definite(err), kind)
				if f.Drop == 0 {
					require.ErrorIs(t, err, channel.ErrUnproven, kind) // a failing gateway signs nothing either
				}
				h.misbehave(simulator.Faults{})
				require.NoError(t, calls[kind](), kind)
			}
			for _, known := range h.sim.Orders() {
				if known.OutTradeNo == "order-1" {
					require.Equal(t, int64(10), known.Refunded, "refunded once")
				}
			}
			standing, err := h.QueryShare(ctx, shareOf(transaction, "finish-1"))
			require.NoError(t, err)
			require.Equal(t, int64(1000-100-100-10), standing.Legs[0].Amount, "shared and refunded once, the rest released")
		})
	}
}

func TestAnAnswerThatTakesTooLongIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.paid(t, h.order("order-1", 1000))
	h.misbehave(simulator.Faults{Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for kind, call := range everyCall(ctx, h, h.order("order-2", 1), h.refundOf(transaction, "refund-1", 1, 1000),
		shareOf(transaction, "share-1", channel.ShareReceiver{Account: "1900000110", Amount: 1}),
		channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", Account: "1900000110", Amount: 1, Currency: "CNY"}) {
		err := call()
		require.ErrorIs(t, err, context.DeadlineExceeded, kind)
		require.False(t, channel.Definite(err), kind)
	}
	h.sim.Core().Close() // lets go of the calls that wait
}

func TestNoticesUnderEachKeyThatIsLive(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for i, key := range []string{"", "old", "new", "public"} {
		h.misbehave(simulator.Faults{SignWith: key})
		h.paid(t, h.order("order-"+string(rune('a'+i)), 100))
		events := h.received()
		require.Len(t, events, i+1, key)
		require.Equal(t, channel.PaySuccess, events[i].Kind)
	}
	require.Empty(t, h.refused())
}

func TestNoticesWhileKeysAreRotated(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	for i, key := range []string{"old", "new", "public", "old", "public", "new"} {
		h.misbehave(simulator.Faults{SignWith: key, NoticeTimes: 5})
		h.paid(t, h.order("order-"+string(rune('a'+i)), 100))
	}
	events := h.received()
	require.Len(t, events, 30)
	require.Empty(t, h.refused())
	byKey := map[string]int{}
	for _, e := range events {
		byKey[e.Key("wechatpay", nil)]++
	}
	require.Len(t, byKey, 6, "whatever signed it, a payment is one event")
}

func TestAProbeIsRefusedAndTheCopyThatFollowsIsTaken(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.misbehave(simulator.Faults{SignWith: "probe"})
	h.paid(t, h.order("order-1", 100))
	require.Len(t, h.received(), 1)
	require.Equal(t, []string{"signature_probe"}, h.refused())
	sent := h.sim.Core().Sent()
	require.Len(t, sent, 2)
	require.Equal(t, []int{http.StatusBadRequest, http.StatusNoContent}, []int{sent[0].Status, sent[1].Status})
	require.Contains(t, sent[0].Answer, `"code":"FAIL"`)
	require.Equal(t, sent[0].Body, sent[1].Body)
}

func TestANoticeUnderAnotherKeyIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.misbehave(simulator.Faults{SignWith: "wrong"})
	h.paid(t, h.order("order-1", 100))
	require.Eventually(t, func() bool { return len(h.sim.Core().Sent()) > 0 }, 10*time.Second, time.Millisecond)
	h.sim.Core().Close() // it would come again
	require.Empty(t, h.received())
	require.Equal(t, "signature_invalid", h.refused()[0])
	require.Equal(t, http.StatusUnauthorized, h.sim.Core().Sent()[0].Status)
}

func TestNoticesThatComeTogetherOrInTheWrongOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.misbehave(simulator.Faults{NoticeTimes: 50})
	transaction := h.paid(t, h.order("order-1", 100))
	require.Len(t, h.received(), 50)

	h.misbehave(simulator.Faults{Withhold: true, Reverse: true})
	other := h.paid(t, h.order("order-2", 100))
	_, err := h.Refund(t.Context(), h.refundOf(other, "refund-1", 100, 100))
	require.NoError(t, err)
	h.sim.Core().Flush()
	events := h.received()
	require.Equal(t, []channel.Kind{channel.RefundSuccess, channel.PaySuccess}, []channel.Kind{events[50].Kind, events[51].Kind})
	for _, e := range events[:50] {
		require.Equal(t, transaction, e.TransactionID)
		require.Equal(t, events[0], e)
	}
}
