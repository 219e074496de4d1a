package alipay_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
)

func refundOf(tradeNo, number string, amount int64) channel.Refund {
	return channel.Refund{OutRefundNo: number, TransactionID: tradeNo, OutTradeNo: "order-1", Amount: amount, Total: 10000, Currency: "CNY", Reason: "cold tea"}
}

func TestARefundIsDoneOnceHoweverOftenItIsCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	for range 3 {
		standing, err := w.Refund(t.Context(), refundOf(tradeNo, "R1", 2500))
		require.NoError(t, err)
		require.Equal(t, channel.RefundSucceeded, standing.State)
		require.Equal(t, tradeNo+":2:R1", standing.RefundID)
		require.EqualValues(t, 15, *standing.Fee)

		e := readOne(t, w.account, standing.Body)
		require.Equal(t, channel.RefundSuccess, e.Kind)
		require.Equal(t, standing.RefundID, e.Subject)
		require.Equal(t, []any{tradeNo, "order-1", "R1", int64(2500), "CNY"}, []any{e.TransactionID, e.OutTradeNo, e.OutNo, e.Amount, e.Currency})
		require.EqualValues(t, 15, *e.Fee)
		require.False(t, e.OccurredAt.IsZero())
	}
	require.EqualValues(t, 2500, w.refunded("order-1"))

	// The second refund's answer is about the second, though refund_fee is the sum.
	standing, err := w.Refund(t.Context(), refundOf(tradeNo, "R2", 500))
	require.NoError(t, err)
	require.EqualValues(t, 500, readOne(t, w.account, standing.Body).Amount)
}

func TestAtOnceARefundIsDoneOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.Refund(t.Context(), refundOf(tradeNo, "R1", 2500)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, 2500, w.refunded("order-1"))
}

func TestMoreThanWasPaidIsNotRefunded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	_, err := w.Refund(t.Context(), refundOf(tradeNo, "R1", 6000))
	require.NoError(t, err)
	_, err = w.Refund(t.Context(), refundOf(tradeNo, "R2", 4001))
	requireRejection(t, err, "ACQ.REASON_TRADE_REFUND_FEE_ERR")
	require.EqualValues(t, 6000, w.refunded("order-1"))
}

func TestTheNumberOfAnotherAmountSaysNothingDefinite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	_, err := w.Refund(t.Context(), refundOf(tradeNo, "R1", 2500))
	require.NoError(t, err)
	_, err = w.Refund(t.Context(), refundOf(tradeNo, "R1", 2600))
	requireUnknown(t, err) // something was refunded under this number: whoever asks learns what
	standing, err := w.QueryRefund(t.Context(), refundOf(tradeNo, "R1", 2600))
	require.NoError(t, err)
	require.EqualValues(t, 2500, readOne(t, w.account, standing.Body).Amount)
}

func TestARefundThatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	w.Core().Misbehave(simulator.Faults{Hold: true})
	standing, err := w.Refund(t.Context(), refundOf(tradeNo, "R1", 2500))
	require.NoError(t, err)
	require.Equal(t, channel.RefundPending, standing.State)
	require.Nil(t, standing.Body)
	require.Error(t, w.SettleRefund("R1", "ABNORMAL"), "Alipay has none such")

	require.NoError(t, w.SettleRefund("R1", "SUCCEEDED"))
	standing, err = w.QueryRefund(t.Context(), refundOf(tradeNo, "R1", 2500))
	require.NoError(t, err)
	require.Equal(t, channel.RefundSucceeded, standing.State)

	_, err = w.Refund(t.Context(), refundOf(tradeNo, "R2", 2500))
	require.NoError(t, err)
	require.NoError(t, w.SettleRefund("R2", "FAILED"))
	standing, err = w.QueryRefund(t.Context(), refundOf(tradeNo, "R2", 2500))
	require.NoError(t, err)
	require.Equal(t, channel.RefundUnknown, standing.State, "Alipay does not know it any more: it was not done")
}

func TestARefundsNoticeComesToThePaymentsAddressAndIsAHint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	w.told()
	for number, amount := range map[string]int64{"R1": 4000, "R2": 6000} {
		_, err := w.Refund(t.Context(), refundOf(tradeNo, number, amount))
		require.NoError(t, err)
	}
	told := w.told()
	require.Len(t, told, 3)
	require.Equal(t, channel.PaySuccess, told[0].Kind)
	var numbers []string
	for _, e := range told[1:] {
		require.Equal(t, channel.RefundHint, e.Kind)
		require.Zero(t, e.Amount)
		require.Equal(t, tradeNo, e.TransactionID)
		numbers = append(numbers, e.OutNo)
	}
	require.ElementsMatch(t, []string{"R1", "R2"}, numbers)
}

func TestARefusalAfterADoneCallIsNotBelievedBeforeItIsAskedFor(t *testing.T) {
	t.Parallel()
	done := `{"code":"10000","msg":"Success","trade_no":"1","out_trade_no":"order-1","out_request_no":"R1","refund_status":"REFUND_SUCCESS","refund_amount":"25.00"}`
	none := `{"code":"10000","msg":"Success"}`
	refused := failing("40004", "ACQ.TRADE_HAS_CLOSE")
	for name, c := range map[string]struct {
		query string
		check func(channel.RefundStanding, error)
	}{
		"it was done by an earlier call": {done, func(s channel.RefundStanding, err error) {
			require.NoError(t, err)
			require.Equal(t, channel.RefundSucceeded, s.State)
		}},
		"it was not done":                {none, func(_ channel.RefundStanding, err error) { requireRejection(t, err, "ACQ.TRADE_HAS_CLOSE") }},
		"the question is not answered":   {failing("20000", "isp.unknow-error"), func(_ channel.RefundStanding, err error) { requireUnknown(t, err) }},
		"the question itself is refused": {failing("40002", "isv.invalid-signature"), func(_ channel.RefundStanding, err error) { requireUnknown(t, err) }},
	} {
		account := scripted(t, map[string]string{"alipay.trade.refund": refused, "alipay.trade.fastpay.refund.query": c.query})
		standing, err := account.Refund(t.Context(), refundOf("1", "R1", 2500))
		t.Log(name, err)
		c.check(standing, err)
	}
}

func TestWhatAlipaySaysOfARefund(t *testing.T) {
	t.Parallel()
	const about = `"trade_no":"1","out_trade_no":"order-1","out_request_no":"R1","refund_amount":"25.00"`
	for answer, want := range map[string]channel.RefundState{
		`{"code":"10000","msg":"Success"}`:                                                                           channel.RefundUnknown,
		`{"code":"10000","msg":"Success","refund_amount":"0.00"}`:                                                    channel.RefundUnknown,
		`{"code":"10000","msg":"Success",` + about + `,"refund_status":"REFUND_SUCCESS"}`:                            channel.RefundSucceeded,
		`{"code":"10000","msg":"Success",` + about + `}`:                                                             channel.RefundPending,
		`{"code":"10000","msg":"Success",` + about + `,"refund_status":""}`:                                          channel.RefundPending,
		`{"code":"10000","msg":"Success",` + about + `,"refund_status":"REFUND_PROCESSING","error_code":"WHATEVER"}`: channel.RefundPending,
		failing("40004", "ACQ.TRADE_NOT_EXIST"):                                                                      channel.RefundUnknown,
		failing("40004", "TRADE_NOT_EXIST"):                                                                          channel.RefundUnknown,
	} {
		account := scripted(t, map[string]string{"alipay.trade.fastpay.refund.query": answer})
		standing, err := account.QueryRefund(t.Context(), refundOf("1", "R1", 2500))
		require.NoError(t, err, answer)
		require.Equal(t, want, standing.State, answer)
		require.Equal(t, want == channel.RefundSucceeded, standing.Body != nil, answer)
	}
	for _, answer := range []string{failing("40004", "ACQ.SYSTEM_ERROR"), failing("40004", "ACQ.INVALID_PARAMETER"), failing("40006", "isv.insufficient-isv-permissions")} {
		account := scripted(t, map[string]string{"alipay.trade.fastpay.refund.query": answer})
		_, err := account.QueryRefund(t.Context(), refundOf("1", "R1", 2500))
		requireUnknown(t, err)
	}
}

func TestARefundInAnotherCurrencyOrOfNoPaymentIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := refundOf("1", "R1", 1)
	r.Currency = "USD"
	_, err := w.Refund(t.Context(), r)
	require.ErrorIs(t, err, channel.ErrUnsupported)
	_, err = w.Refund(t.Context(), channel.Refund{OutRefundNo: "R1", Amount: 1, Currency: "CNY"})
	require.Error(t, err)
	require.Zero(t, w.counted(""))
}
