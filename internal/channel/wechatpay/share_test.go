package wechatpay_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
)

func (h *house) shared(t *testing.T, number string, amount int64) (transaction string) {
	t.Helper()
	o := h.order(number, amount)
	o.Shared = true
	return h.paid(t, o)
}

func shareOf(transaction, number string, receivers ...channel.ShareReceiver) channel.Share {
	return channel.Share{OutOrderNo: number, TransactionID: transaction, Currency: "CNY", Receivers: receivers}
}

func TestASharingTellsOfEachReceiver(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.shared(t, "order-1", 1000)
	s := shareOf(transaction, "share-1",
		channel.ShareReceiver{Account: "1900000110", Amount: 100, Description: "门店"},
		channel.ShareReceiver{Account: "oPerson", Amount: 30, Name: "张三"},
		channel.ShareReceiver{Type: "PERSONAL_OPENID", Account: "oClosed", Amount: 20},
	)
	s.Finish = true
	unknown, err := h.QueryShare(t.Context(), s)
	require.NoError(t, err)
	require.False(t, unknown.Known)

	h.misbehave(simulator.Faults{Hold: true})
	begun, err := h.Share(t.Context(), s)
	require.NoError(t, err)
	require.True(t, begun.Known)
	require.False(t, begun.Ended())
	require.Len(t, begun.Legs, 3)
	require.Nil(t, begun.Body)
	require.Equal(t, "张三", h.sim.ReceiverName("share-1", "oPerson"), "the name went encrypted, under the key that the request names")

	require.NoError(t, h.sim.SettleShare("share-1", "oClosed"))
	ended, err := h.QueryShare(t.Context(), s)
	require.NoError(t, err)
	require.True(t, ended.Ended())
	require.Equal(t, begun.ShareID, ended.ShareID)
	require.Equal(t, []channel.ShareLeg{
		{Account: "1900000110", Amount: 100, State: channel.LegSucceeded},
		{Account: "oPerson", Amount: 30, State: channel.LegSucceeded},
		{Account: "oClosed", Amount: 20, State: channel.LegClosed, Reason: "ACCOUNT_ABNORMAL"},
	}, ended.Legs, "what the merchant keeps is no leg")
	events, err := channel.Read(h.account, ended.Body)
	require.NoError(t, err)
	require.Len(t, events, 3)
	keys := map[string]bool{}
	for i, e := range events {
		require.Equal(t, channel.ShareResult, e.Kind)
		require.Equal(t, []any{"share-1", ended.Legs[i].Account, ended.Legs[i].State, ended.Legs[i].Amount}, []any{e.OutNo, e.Receiver, e.LegState, e.Amount})
		require.Contains(t, e.Subject, ended.ShareID+":")
		keys[e.Key("wechatpay", nil)] = true
	}
	require.Len(t, keys, 3)
}

func TestASharingUnderCertificatesEncryptsForTheNewest(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(config map[string]any) { delete(config, "public_keys") })
	transaction := h.shared(t, "order-1", 1000)
	_, err := h.Share(t.Context(), shareOf(transaction, "share-1", channel.ShareReceiver{Account: "oPerson", Amount: 30, Name: "李四"}))
	require.NoError(t, err)
	require.Equal(t, "李四", h.sim.ReceiverName("share-1", "oPerson"))
}

func TestANumberIsOneSharing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.shared(t, "order-1", 1000)
	one := channel.ShareReceiver{Account: "1900000110", Amount: 100, Name: "商户全称"}
	s := shareOf(transaction, "share-1", one)
	begun, err := h.Share(t.Context(), s)
	require.NoError(t, err)
	again, err := h.Share(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, begun.ShareID, again.ShareID)
	require.True(t, again.Ended())

	other := one
	other.Amount = 200
	_, err = h.Share(t.Context(), shareOf(transaction, "share-1", other))
	requireRejected(t, err, "INVALID_REQUEST")
	_, err = h.Share(t.Context(), shareOf(transaction, "share-2", channel.ShareReceiver{Account: "1900000110", Amount: 901}))
	requireRejected(t, err, "NOT_ENOUGH")

	plain := h.paid(t, h.order("order-2", 1000))
	_, err = h.Share(t.Context(), shareOf(plain, "share-3", one))
	requireRejected(t, err, "INVALID_REQUEST")
}

func TestWhatIsNotSharedIsReleasedAndThenNothingIsShared(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.shared(t, "order-1", 1000)
	one := channel.ShareReceiver{Account: "1900000110", Amount: 100}
	_, err := h.Share(t.Context(), shareOf(transaction, "share-1", one))
	require.NoError(t, err)
	h.misbehave(simulator.Faults{Hold: true})
	release := shareOf(transaction, "finish-1")
	begun, err := h.FinishShare(t.Context(), release)
	require.NoError(t, err)
	require.False(t, begun.Ended())
	require.NoError(t, h.sim.SettleShare("finish-1"))
	ended, err := h.QueryShare(t.Context(), release)
	require.NoError(t, err)
	require.Equal(t, []channel.ShareLeg{{Account: h.account.Identity(), Amount: 900, State: channel.LegSucceeded}}, ended.Legs)
	require.Nil(t, ended.Body, "it books nothing")
	again, err := h.FinishShare(t.Context(), release)
	require.NoError(t, err)
	require.Equal(t, ended, again)

	_, err = h.Share(t.Context(), shareOf(transaction, "share-2", one))
	requireRejected(t, err, "INVALID_REQUEST")
	_, err = h.FinishShare(t.Context(), shareOf(transaction, "finish-2"))
	requireRejected(t, err, "INVALID_REQUEST")
}

func TestASharingThatCannotBeIsRefusedBeforeItIsAsked(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	one := channel.ShareReceiver{Account: "1900000110", Amount: 100}
	many := make([]channel.ShareReceiver, 51)
	for i := range many {
		many[i] = channel.ShareReceiver{Account: fmt.Sprint(1900000200 + i), Amount: 1}
	}
	for code, s := range map[string]channel.Share{
		"out_order_no_invalid": shareOf("4200000001", "a.b", one),
		"transaction_missing":  shareOf("", "share-1", one),
		"receivers_invalid":    shareOf("4200000001", "share-1"),
		"receiver_is_merchant": shareOf("4200000001", "share-1", channel.ShareReceiver{Account: h.account.Identity(), Amount: 1}),
	} {
		_, err := h.Share(t.Context(), s)
		requireRejected(t, err, code)
	}
	_, err := h.Share(t.Context(), shareOf("4200000001", "share-1", many...))
	requireRejected(t, err, "receivers_invalid")
	foreign := shareOf("4200000001", "share-1", one)
	foreign.Currency = "USD"
	_, err = h.Share(t.Context(), foreign)
	require.ErrorIs(t, err, channel.ErrUnsupported)
	standing, err := h.QueryShare(t.Context(), shareOf("4200000001", "a.b"))
	require.NoError(t, err)
	require.False(t, standing.Known)
	_, err = h.QueryShare(t.Context(), shareOf("", "share-1"))
	require.Error(t, err, "an unnamed payment is not one that was never shared")
	require.Empty(t, h.sim.Core().Calls(""))
}

func TestAReturnTakesBackWhatAMerchantGot(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.shared(t, "order-1", 1000)
	s := shareOf(transaction, "share-1", channel.ShareReceiver{Account: "1900000110", Amount: 100}, channel.ShareReceiver{Account: "oPerson", Amount: 10})
	_, err := h.Share(t.Context(), s)
	require.NoError(t, err)
	back := channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", Account: "1900000110", Amount: 60, Currency: "CNY"}
	standing, err := h.QueryReturn(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnUnknown, standing.State)
	standing, err = h.ReturnShare(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnSucceeded, standing.State)
	again, err := h.ReturnShare(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, standing, again)

	other := back
	other.Amount = 61
	_, err = h.ReturnShare(t.Context(), other)
	requireRejected(t, err, "INVALID_REQUEST")
	other.OutReturnNo, other.Amount = "return-2", 41
	_, err = h.ReturnShare(t.Context(), other)
	requireRejected(t, err, "INVALID_REQUEST")

	h.misbehave(simulator.Faults{Hold: true})
	other.Amount = 40
	standing, err = h.ReturnShare(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnPending, standing.State)
	require.NoError(t, h.sim.SettleReturn("return-2", false))
	standing, err = h.QueryReturn(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnFailed, standing.State)
	require.Equal(t, "BALANCE_NOT_ENOUGH", standing.Reason)

	person := channel.ShareReturn{OutReturnNo: "return-3", OutOrderNo: "share-1", Account: "oPerson", Amount: 1, Currency: "CNY"}
	_, err = h.ReturnShare(t.Context(), person)
	require.ErrorIs(t, err, channel.ErrUnsupported)
}

func TestAReceiverIsToldOfItsLeg(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	transaction := h.shared(t, "order-1", 1000)
	_, err := h.Share(t.Context(), shareOf(transaction, "share-1", channel.ShareReceiver{Account: "1900000110", Amount: 100}))
	require.NoError(t, err)
	require.Len(t, h.received(), 1, "the payment's notice")
	require.NoError(t, h.sim.NotifyShare("share-1", "1900000110", h.callback))
	events := h.received()
	last := events[len(events)-1]
	require.Equal(t, []any{channel.ShareResult, "share-1", "1900000110", int64(100)}, []any{last.Kind, last.OutNo, last.Receiver, last.Amount})
}
