package alipay_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

// codes gives the refusals so far.
func (w *world) codes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.refused...)
}

func TestANoticeUnderAnotherKeyIsRefusedAndTheRightOneIsTakenAfterIt(t *testing.T) {
	t.Parallel()
	for signWith, code := range map[string]string{"old": "signature_invalid", "wrong": "signature_invalid", "probe": "signature_malformed"} {
		w := newWorld(t)
		_, err := w.Prepay(t.Context(), w.order("order-1", 9900))
		require.NoError(t, err)
		w.Core().Misbehave(simulator.Faults{SignWith: signWith})
		require.NoError(t, w.Pay("order-1"))
		require.Eventually(t, func() bool { return len(w.codes()) > 0 }, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, code, w.codes()[0], signWith)

		// What is refused is answered with the word that makes Alipay send it again.
		require.Eventually(t, func() bool { return len(w.Core().Sent()) > 0 }, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, "failure", w.Core().Sent()[0].Answer)
		require.GreaterOrEqual(t, w.Core().Sent()[0].Status, 400)

		w.Core().Misbehave(simulator.Faults{})
		require.NoError(t, w.Finish("order-1"))
		require.Eventually(t, func() bool { return len(w.taken()) == 1 }, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, channel.PaySuccess, w.taken()[0].Kind)
	}
}

func TestANoticeThatComesManyTimesAtOnceIsOneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Prepay(t.Context(), w.order("order-1", 9900))
	require.NoError(t, err)
	w.Core().Misbehave(simulator.Faults{NoticeTimes: 50})
	require.NoError(t, w.Pay("order-1"))
	told := w.told()
	require.GreaterOrEqual(t, len(told), 50)
	for _, e := range told {
		require.Equal(t, told[0], e)
	}
	require.Empty(t, w.codes())
	require.Equal(t, "success", w.Core().Sent()[0].Answer)
}

func TestNoticesInTheWrongOrderTellTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Prepay(t.Context(), w.order("order-1", 9900))
	require.NoError(t, err)
	w.Core().Misbehave(simulator.Faults{Withhold: true, Reverse: true})
	require.NoError(t, w.Pay("order-1"))
	tradeNo := w.Orders()[0].TransactionID
	_, err = w.Refund(t.Context(), refundOf(tradeNo, "R1", 9900))
	require.NoError(t, err)
	require.Empty(t, w.told())
	w.Core().Flush()
	told := w.told()
	require.Len(t, told, 2)
	require.Equal(t, channel.RefundHint, told[0].Kind, "a closed trade with a refund is neither paid nor expired")
	require.Equal(t, "R1", told[0].OutNo)
	require.Equal(t, channel.PaySuccess, told[1].Kind)
}

func TestNoticesInGBKAreReadAsThoseInUTF8(t *testing.T) {
	t.Parallel()
	events := map[string]channel.Event{}
	for _, charset := range []string{"utf-8", "GBK"} {
		w := newWorld(t, func(s *sim.Simulator) {
			s.Quirk(sim.Quirks{Charset: charset})
			s.Clock(func() time.Time { return time.Date(2026, 3, 1, 16, 0, 0, 0, time.UTC) })
		})
		o := w.order("order-1", 9900)
		o.Description = "院内充值 & 茶"
		_, err := w.Prepay(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, w.Pay("order-1"))
		told := w.told()
		require.Len(t, told, 1, w.codes())
		events[charset] = told[0]
		gbk := bytes.Contains(w.Core().Sent()[0].Body, []byte("%D4%BA%C4%DA")) // 院内
		require.Equal(t, charset == "GBK", gbk)
	}
	require.Equal(t, events["utf-8"], events["GBK"])
}

func TestARefundWithoutANoticeIsLearntByAsking(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Quirk(sim.Quirks{SilentRefunds: true}) })
	tradeNo := w.paid(t, "order-1", 10000)
	w.Core().Misbehave(simulator.Faults{Drop: 1, Only: "refund"})
	_, err := w.Refund(t.Context(), refundOf(tradeNo, "R1", 10000))
	requireUnknown(t, err)
	require.Len(t, w.told(), 1)
	standing, err := w.QueryRefund(t.Context(), refundOf(tradeNo, "R1", 10000))
	require.NoError(t, err)
	require.Equal(t, channel.RefundSucceeded, standing.State)
	require.EqualValues(t, 10000, readOne(t, w.account, standing.Body).Amount)
}
