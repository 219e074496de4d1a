package alipay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

const (
	alice = "2088000000000011"
	bob   = "2088000000000012"
)

func shareTo(tradeNo, number string, receivers ...channel.ShareReceiver) channel.Share {
	return channel.Share{OutOrderNo: number, TransactionID: tradeNo, OutTradeNo: "order-1", Currency: "CNY", Receivers: receivers}
}

func to(account string, amount int64) channel.ShareReceiver {
	return channel.ShareReceiver{Account: account, Amount: amount, Description: "part"}
}

func TestASharingFromTheCallToTheLegs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 10000)
	s := shareTo(tradeNo, "S1", to(alice, 1000), to(bob, 500))

	before, err := w.QueryShare(t.Context(), s)
	require.NoError(t, err)
	require.False(t, before.Known)

	// Nobody is bound yet: that is done on the way.
	taken, err := w.Share(t.Context(), s)
	require.NoError(t, err)
	require.True(t, taken.Known)
	require.False(t, taken.Ended())
	require.NotEmpty(t, taken.ShareID)
	require.Equal(t, 1, w.counted("bind"))

	for _, shareID := range []string{"", taken.ShareID} {
		s.ShareID = shareID
		standing, err := w.QueryShare(t.Context(), s)
		require.NoError(t, err)
		require.True(t, standing.Ended())
		require.Equal(t, []channel.ShareLeg{
			{Account: alice, Amount: 1000, State: channel.LegSucceeded}, {Account: bob, Amount: 500, State: channel.LegSucceeded},
		}, standing.Legs)
		events, err := channel.Read(w.account, standing.Body)
		require.NoError(t, err)
		require.Len(t, events, 2)
		require.Equal(t, channel.ShareResult, events[0].Kind)
		require.Equal(t, []any{"S1", alice, channel.LegSucceeded, int64(1000), "CNY"}, []any{events[0].OutNo, events[0].Receiver, events[0].LegState, events[0].Amount, events[0].Currency})
		require.NotEqual(t, events[0].Key("alipay", nil), events[1].Key("alipay", nil))
	}

	// Called again it is the same one, and nobody is bound again.
	again, err := w.Share(t.Context(), shareTo(tradeNo, "S1", to(alice, 1000), to(bob, 500)))
	require.NoError(t, err)
	require.Equal(t, taken.ShareID, again.ShareID)
	require.Equal(t, 1, w.counted("bind"))

	// Under the same number with other parts: nothing is sent twice, and nothing definite is said of it.
	_, err = w.Share(t.Context(), shareTo(tradeNo, "S1", to(alice, 2000)))
	requireUnknown(t, err)
}

func TestLegsThatWaitAndLegsThatGetNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Quirk(sim.Quirks{Bound: []string{alice, bob}}) })
	tradeNo := w.paid(t, "order-1", 10000)
	w.Core().Misbehave(simulator.Faults{Hold: true})
	s := shareTo(tradeNo, "S1", to(alice, 1000), to(bob, 500))
	_, err := w.Share(t.Context(), s)
	require.NoError(t, err)
	standing, err := w.QueryShare(t.Context(), s)
	require.NoError(t, err)
	require.False(t, standing.Ended())
	require.Nil(t, standing.Body, "no leg has ended")

	require.NoError(t, w.SettleShare("S1", bob))
	standing, err = w.QueryShare(t.Context(), s)
	require.NoError(t, err)
	require.True(t, standing.Ended())
	require.Equal(t, channel.LegClosed, standing.Legs[1].State)
	require.Contains(t, standing.Legs[1].Reason, "BALANCE_NOT_ENOUGH")
	events, err := channel.Read(w.account, standing.Body)
	require.NoError(t, err)
	require.Equal(t, channel.LegSucceeded, events[0].LegState)
	require.Equal(t, channel.LegClosed, events[1].LegState)
}

func TestASharingThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Quirk(sim.Quirks{Bound: []string{alice}, MostShared: 30}) })
	tradeNo := w.paid(t, "order-1", 10000)
	_, err := w.Share(t.Context(), shareTo(tradeNo, "S1", to(alice, 3001)))
	requireRejection(t, err, "ACQ.ALLOC_AMOUNT_VALIDATE_ERROR")
	_, err = w.Share(t.Context(), shareTo(tradeNo, "S2", to(sellerID, 1)))
	requireRejection(t, err, "ACQ.ROYALTY_ACCOUNTS_EQUAL")
	_, err = w.Share(t.Context(), shareTo("1", "S3", to(alice, 1)))
	requireRejection(t, err, "ACQ.TRADE_NOT_EXIST")

	calls := w.counted("")
	_, err = w.Share(t.Context(), shareTo(tradeNo, "S4", channel.ShareReceiver{Type: "loginName", Account: "a@example.com", Amount: 1}))
	requireRejection(t, err, "invalid_receiver_type")
	usd := shareTo(tradeNo, "S5", to(alice, 1))
	usd.Currency = "USD"
	_, err = w.Share(t.Context(), usd)
	require.ErrorIs(t, err, channel.ErrUnsupported)
	_, err = w.Share(t.Context(), shareTo(tradeNo, "S6"))
	require.Error(t, err)
	_, err = w.Share(t.Context(), shareTo("", "S7", to(alice, 1)))
	require.Error(t, err)
	require.Equal(t, calls, w.counted(""), "none of these was sent")
}

func TestAReceiverThatAlipayDoesNotBindIsARefusal(t *testing.T) {
	t.Parallel()
	account := scripted(t, map[string]string{
		"alipay.trade.order.settle":          failing("40004", "ACQ.ROYALTY_RECEIVER_INVALID"),
		"alipay.trade.royalty.relation.bind": failing("40004", "ACQ.USER_NOT_EXIST"),
	})
	_, err := account.Share(t.Context(), shareTo("1", "S1", to(alice, 1)))
	requireRejection(t, err, "ACQ.USER_NOT_EXIST")
}

func TestTheEndOfASharing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Quirk(sim.Quirks{Bound: []string{alice}}) })
	tradeNo := w.paid(t, "order-1", 10000)
	s := shareTo(tradeNo, "S1", to(alice, 1000))
	_, err := w.Share(t.Context(), s)
	require.NoError(t, err)

	finish := shareTo(tradeNo, "F1")
	standing, err := w.FinishShare(t.Context(), finish)
	require.NoError(t, err)
	require.True(t, standing.Ended())
	standing, err = w.FinishShare(t.Context(), finish)
	require.NoError(t, err, "again it is the same end")
	require.True(t, standing.Ended())
	standing, err = w.FinishShare(t.Context(), shareTo(tradeNo, "F2"))
	require.NoError(t, err, "what has ended has ended")
	require.True(t, standing.Ended())
	standing, err = w.QueryShare(t.Context(), finish)
	require.NoError(t, err)
	require.True(t, standing.Ended())
	require.Nil(t, standing.Body)

	_, err = w.Share(t.Context(), shareTo(tradeNo, "S2", to(alice, 1)))
	requireRejection(t, err, "ACQ.ALREADY_FINISH_ALLOC")

	// In one call with the last part.
	other := w.paid(t, "order-2", 10000)
	last := shareTo(other, "S3", to(alice, 1000))
	last.Finish = true
	_, err = w.Share(t.Context(), last)
	require.NoError(t, err)
	_, err = w.Share(t.Context(), shareTo(other, "S4", to(alice, 1)))
	requireRejection(t, err, "ACQ.ALREADY_FINISH_ALLOC")
}

func TestAReceiversPartIsTakenBackOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Quirk(sim.Quirks{Bound: []string{alice}}) })
	tradeNo := w.paid(t, "order-1", 10000)
	_, err := w.Share(t.Context(), shareTo(tradeNo, "S1", to(alice, 1000)))
	require.NoError(t, err)
	back := channel.ShareReturn{OutReturnNo: "B1", OutOrderNo: "S1", TransactionID: tradeNo, Account: alice, Amount: 600, Currency: "CNY", Reason: "refund"}
	standing, err := w.QueryReturn(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnUnknown, standing.State)
	for range 2 {
		standing, err = w.ReturnShare(t.Context(), back)
		require.NoError(t, err)
		require.Equal(t, channel.ReturnStanding{State: channel.ReturnSucceeded, ReturnID: tradeNo + ":2:B1"}, standing)
	}
	require.Zero(t, w.refunded("order-1"), "the payer gets nothing of it")
	more := back
	more.OutReturnNo, more.Amount = "B2", 401
	_, err = w.ReturnShare(t.Context(), more)
	requireRejection(t, err, "ACQ.ALLOC_AMOUNT_VALIDATE_ERROR")

	w.Core().Misbehave(simulator.Faults{Hold: true})
	held := back
	held.OutReturnNo, held.Amount = "B3", 400
	standing, err = w.ReturnShare(t.Context(), held)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnPending, standing.State)
	require.NoError(t, w.SettleRefund("B3", "SUCCEEDED"))
	standing, err = w.QueryReturn(t.Context(), held)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnSucceeded, standing.State)

	byLogin := back
	byLogin.Type = "loginName"
	_, err = w.ReturnShare(t.Context(), byLogin)
	requireRejection(t, err, "invalid_receiver_type")
}

func TestWhatAlipaySaysOfAReturn(t *testing.T) {
	t.Parallel()
	about := func(royalties string) string {
		return `{"code":"10000","msg":"Success","trade_no":"1","out_request_no":"B1","refund_status":"REFUND_SUCCESS","refund_amount":"0.00","refund_royaltys":` + royalties + `}`
	}
	for answer, want := range map[string]channel.ReturnState{
		`{"code":"10000","msg":"Success"}`:                                   channel.ReturnUnknown,
		about(`[{"trans_out":"` + alice + `","result_code":"SUCCESS"}]`):     channel.ReturnSucceeded,
		about(`[{"ori_trans_out":"` + alice + `","result_code":"SUCCESS"}]`): channel.ReturnSucceeded,
		about(`[{"trans_out":"` + alice + `","result_code":"FAIL"}]`):        channel.ReturnFailed,
		about(`[{"trans_out":"` + alice + `","result_code":""}]`):            channel.ReturnPending,
		about(`[{"trans_out":"` + bob + `","result_code":"SUCCESS"}]`):       channel.ReturnPending,
		about(`[]`): channel.ReturnPending,
	} {
		account := scripted(t, map[string]string{"alipay.trade.fastpay.refund.query": answer})
		standing, err := account.QueryReturn(t.Context(), channel.ShareReturn{OutReturnNo: "B1", TransactionID: "1", Account: alice, Amount: 1, Currency: "CNY"})
		require.NoError(t, err, answer)
		require.Equal(t, want, standing.State, answer)
	}
}

func TestALegsStateThatIsNotKnownIsNoEnd(t *testing.T) {
	t.Parallel()
	account := scripted(t, map[string]string{"alipay.trade.order.settle.query": `{"code":"10000","msg":"Success","out_request_no":"S1","royalty_detail_list":[
		{"operation_type":"transfer","trans_in":"` + alice + `","amount":"10.00","state":"SETTLED"},
		{"operation_type":"transfer_refund","trans_out":"` + bob + `","amount":"1.00","state":"SUCCESS"}]}`})
	standing, err := account.QueryShare(t.Context(), shareTo("1", "S1", to(alice, 1000), to(bob, 5)))
	require.NoError(t, err)
	require.Nil(t, standing.Body)
	require.Equal(t, []channel.ShareLeg{
		{Account: alice, Amount: 1000, State: channel.LegPending}, {Account: bob, Amount: 5, State: channel.LegPending},
	}, standing.Legs, "a return is no leg, and a leg that is not told of waits")
}
