package wechatpay_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
)

func TestARefundEndsInOneOfThreeWays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.paid(t, h.order("order-1", 1000))
	h.misbehave(simulator.Faults{Hold: true})
	for state, want := range map[string]struct {
		state channel.RefundState
		kind  channel.Kind
	}{
		"SUCCEEDED": {channel.RefundSucceeded, channel.RefundSuccess},
		"FAILED":    {channel.RefundRefused, channel.RefundFailed},
		"ABNORMAL":  {channel.RefundStuck, channel.RefundAbnormal},
	} {
		refund := h.refundOf(transaction, "refund-"+state, 100, 1000)
		standing, err := h.QueryRefund(t.Context(), refund)
		require.NoError(t, err)
		require.Equal(t, channel.RefundStanding{State: channel.RefundUnknown}, standing)
		standing, err = h.Refund(t.Context(), refund)
		require.NoError(t, err)
		require.Equal(t, channel.RefundPending, standing.State)
		require.Nil(t, standing.Body)
		require.NotEmpty(t, standing.RefundID)

		require.NoError(t, h.sim.SettleRefund(refund.OutRefundNo, state))
		ended, err := h.QueryRefund(t.Context(), refund)
		require.NoError(t, err)
		require.Equal(t, want.state, ended.State)
		require.Equal(t, standing.RefundID, ended.RefundID)
		events := h.received()
		last := events[len(events)-1]
		require.Equal(t, []any{want.kind, ended.RefundID, refund.OutRefundNo, int64(100)}, []any{last.Kind, last.Subject, last.OutNo, last.Amount})
		if want.state == channel.RefundStuck {
			require.Nil(t, ended.Body, "it is no end")
			continue
		}
		require.Equal(t, last, readOne(t, h.account, ended.Body))
	}
	// Stuck is not the end: a person settles it.
	require.NoError(t, h.sim.SettleRefund("refund-ABNORMAL", "SUCCEEDED"))
	standing, err := h.QueryRefund(t.Context(), h.refundOf(transaction, "refund-ABNORMAL", 100, 1000))
	require.NoError(t, err)
	require.Equal(t, channel.RefundSucceeded, standing.State)
}

func TestRefundsOfOnePaymentNeverPassItAndANumberIsOneRefund(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.paid(t, h.order("order-1", 1000))
	first := h.refundOf(transaction, "refund-1", 700, 1000)
	standing, err := h.Refund(t.Context(), first)
	require.NoError(t, err)
	again, err := h.Refund(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, standing.RefundID, again.RefundID)
	require.Equal(t, channel.RefundSucceeded, again.State)

	other := first
	other.Amount = 300
	_, err = h.Refund(t.Context(), other)
	requireRejected(t, err, "INVALID_REQUEST")
	_, err = h.Refund(t.Context(), h.refundOf(transaction, "refund-2", 301, 1000))
	requireRejected(t, err, "INVALID_REQUEST")
	_, err = h.Refund(t.Context(), h.refundOf(transaction, "refund-3", 300, 1000))
	require.NoError(t, err)
	require.Equal(t, int64(1000), h.sim.Orders()[0].Refunded)

	byOrder := channel.Refund{OutRefundNo: "refund-1", OutTradeNo: "order-1", Amount: 700, Total: 1000, Currency: "CNY"}
	standing, err = h.Refund(t.Context(), byOrder)
	require.NoError(t, err, "a payment can be named by the merchant's number too")
	require.Equal(t, again.RefundID, standing.RefundID)
}

func TestARefundThatCannotBeIsRefusedBeforeItIsAsked(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	refund := h.refundOf("4200000001", "refund.1", 1, 1)
	_, err := h.Refund(t.Context(), refund)
	requireRejected(t, err, "out_refund_no_invalid")
	standing, err := h.QueryRefund(t.Context(), refund)
	require.NoError(t, err)
	require.Equal(t, channel.RefundUnknown, standing.State)
	refund.Currency = "USD"
	_, err = h.Refund(t.Context(), refund)
	require.ErrorIs(t, err, channel.ErrUnsupported)
	require.Empty(t, h.sim.Core().Calls(""))
}

func TestAPaymentThatWeChatPayDoesNotSeeYetIsNoRefusal(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	_, err := h.Refund(t.Context(), h.refundOf("4200000001", "refund-1", 1, 1))
	require.Error(t, err)
	require.False(t, channel.Definite(err), "it is told of payments that are there a moment later")
}

func TestARefusalIsNotPassedOnWhereAnEarlierCallWasCarriedOut(t *testing.T) {
	t.Parallel()
	const done = `{"refund_id":"50300000001","out_refund_no":"refund-1","transaction_id":"4200000001","out_trade_no":"order-1","status":"SUCCESS",
		"success_time":"2026-03-01T16:00:00+08:00","amount":{"total":100,"refund":70,"currency":"CNY"}}`
	refund := channel.Refund{OutRefundNo: "refund-1", TransactionID: "4200000001", Amount: 70, Total: 100, Currency: "CNY"}
	answers := func(query string, status int) channel.Acquirer {
		return stub(t, "public", func(r *http.Request) (int, string) {
			if r.Method == http.MethodPost {
				return http.StatusForbidden, `{"code":"NOT_ENOUGH","message":"余额不足"}`
			}
			return status, query
		})
	}
	standing, err := answers(done, http.StatusOK).Refund(t.Context(), refund)
	require.NoError(t, err)
	require.Equal(t, channel.RefundSucceeded, standing.State)

	other := refund
	other.Amount = 71
	_, err = answers(done, http.StatusOK).Refund(t.Context(), other)
	requireRejected(t, err, "NOT_ENOUGH")

	_, err = answers(`{"code":"RESOURCE_NOT_EXISTS","message":"退款单不存在"}`, http.StatusNotFound).Refund(t.Context(), refund)
	requireRejected(t, err, "NOT_ENOUGH")

	_, err = answers(`{"code":"SYSTEM_ERROR","message":"系统异常"}`, http.StatusInternalServerError).Refund(t.Context(), refund)
	require.Error(t, err)
	require.False(t, channel.Definite(err), "nobody knows")
}
