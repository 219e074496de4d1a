package stripe_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
)

const (
	anna = "acct_1ANNAANNAANNAANN"
	ben  = "acct_1BENBENBENBENBEN"
)

func shareOf(transaction, no string, receivers ...channel.ShareReceiver) channel.Share {
	return channel.Share{OutOrderNo: no, TransactionID: transaction, OutTradeNo: "order-1", Currency: "USD", Receivers: receivers}
}

func TestASharingIsOneTransferPerReceiver(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"in the order's group": true, "in the group that Stripe makes": false} {
		s := newShop(t)
		o := order("order-1")
		o.Shared = shared
		_, id := s.sell(t, o)
		share := shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300, Description: "rent"}, channel.ShareReceiver{Account: ben, Amount: 200})

		standing, err := s.QueryShare(t.Context(), share)
		require.NoError(t, err, name)
		require.False(t, standing.Known, name)

		first, err := s.Share(t.Context(), share)
		require.NoError(t, err, name)
		require.True(t, first.Ended(), name)
		require.Equal(t, map[bool]string{true: "order-1", false: "group_" + id}[shared], first.ShareID)
		require.Equal(t, []channel.ShareLeg{{Account: anna, Amount: 300, State: channel.LegSucceeded}, {Account: ben, Amount: 200, State: channel.LegSucceeded}}, first.Legs)
		for _, e := range s.said(t, first.Body) {
			byCallback, times := s.told("stripe:" + e.Subject + ":PROFIT_SHARE_RESULT")
			require.Equal(t, 1, times, name)
			require.Equal(t, byCallback, e, name)
			require.Equal(t, "share-1", e.OutNo)
			require.Equal(t, id, e.TransactionID)
		}

		s.sim.ForgetKeys()
		again, err := s.Share(t.Context(), share)
		require.NoError(t, err, name)
		require.Equal(t, first.Legs, again.Legs, name)
		share.ShareID = first.ShareID
		for _, ask := range []func() (channel.ShareStanding, error){
			func() (channel.ShareStanding, error) { return s.QueryShare(t.Context(), share) },
			func() (channel.ShareStanding, error) { return s.FinishShare(t.Context(), share) },
		} {
			standing, err = ask()
			require.NoError(t, err, name)
			require.Equal(t, first.Legs, standing.Legs, name)
			require.ElementsMatch(t, s.said(t, first.Body), s.said(t, standing.Body), name)
		}
		require.Equal(t, 2, s.calls("share"), name)

		share.Receivers[0].Amount = 299
		_, err = s.Share(t.Context(), share)
		definite(t, err, "share_differs")

		// A second sharing of the same payment stands in the same group and is another matter.
		second := shareOf(id, "share-2", channel.ShareReceiver{Account: anna, Amount: 100})
		standing, err = s.Share(t.Context(), second)
		require.NoError(t, err, name)
		require.Equal(t, first.ShareID, standing.ShareID)
		require.Equal(t, int64(100), s.said(t, standing.Body)[0].Amount)
	}
}

func TestALegThatStripeRefusesIsClosedAndTheOthersArePaid(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	s.sim.Quirk(simulated.Quirks{Refuse: []string{anna}})
	share := shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300}, channel.ShareReceiver{Account: ben, Amount: 200})
	standing, err := s.Share(t.Context(), share)
	require.NoError(t, err)
	require.True(t, standing.Ended())
	require.Equal(t, channel.LegClosed, standing.Legs[0].State)
	require.Contains(t, standing.Legs[0].Reason, "insufficient_capabilities_for_transfer")
	require.Equal(t, channel.LegSucceeded, standing.Legs[1].State)

	events := s.said(t, standing.Body)
	require.Len(t, events, 2, "an event per leg that ended")
	require.Equal(t, channel.Event{
		Kind: channel.ShareResult, Subject: "share-1:" + anna, TransactionID: id, OutTradeNo: "order-1", OutNo: "share-1", Amount: 300, Currency: "USD",
		Receiver: anna, LegState: channel.LegClosed,
	}, events[0])

	query, err := s.QueryShare(t.Context(), share)
	require.NoError(t, err)
	require.False(t, query.Known, "Stripe keeps nothing of a transfer that it refused: the sharing is asked for again")
	again, err := s.Share(t.Context(), share)
	require.NoError(t, err)
	require.Equal(t, standing.Legs, again.Legs)
	require.Equal(t, events, s.said(t, again.Body))

	alone := shareOf(id, "share-2", channel.ShareReceiver{Account: anna, Amount: 300})
	_, err = s.Share(t.Context(), alone)
	definite(t, err, "insufficient_capabilities_for_transfer")
}

func TestASharingThatCannotBe(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o, id := s.sell(t, order("order-1"))
	crowd := shareOf(id, "s")
	for i := range 51 {
		crowd.Receivers = append(crowd.Receivers, channel.ShareReceiver{Account: fmt.Sprintf("acct_1CROWD%010d", i), Amount: 1})
	}
	for code, share := range map[string]channel.Share{
		"receivers_too_many": crowd,
		"receivers_missing":  shareOf(id, "s"),
		"receiver_twice":     shareOf(id, "s", channel.ShareReceiver{Account: anna, Amount: 1}, channel.ShareReceiver{Account: anna, Amount: 2}),
		"receiver_invalid":   shareOf(id, "s", channel.ShareReceiver{Account: "anna", Amount: 1}),
		"amount_invalid":     shareOf(id, "s", channel.ShareReceiver{Account: anna, Amount: 0}),
	} {
		_, err := s.Share(t.Context(), share)
		definite(t, err, code)
	}
	unpaid := s.announce(t, order("order-2"))
	_, err := s.Share(t.Context(), shareOf(unpaid.Reference, "s", channel.ShareReceiver{Account: anna, Amount: 1}))
	definite(t, err, "payment_not_paid")
	_, err = s.Share(t.Context(), shareOf("ch_1", "s", channel.ShareReceiver{Account: anna, Amount: 1}))
	definite(t, err, "payment_without_intent")
	_, err = s.Share(t.Context(), shareOf(id, "s", channel.ShareReceiver{Account: anna, Amount: 1001}))
	require.True(t, channel.Definite(err), "more than was paid")
	require.Equal(t, 1, s.calls("share"))

	standing, err := s.FinishShare(t.Context(), channel.Share{OutOrderNo: "s", TransactionID: id, OutTradeNo: o.OutTradeNo})
	require.NoError(t, err)
	require.True(t, standing.Ended(), "what is not shared is the merchant's already")
}

func TestTheLargestSharingFitsIntoOneBody(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	share := shareOf(id, "share-1")
	for i := range 50 {
		share.Receivers = append(share.Receivers, channel.ShareReceiver{Account: fmt.Sprintf("acct_1CROWD%010d", i), Amount: 20})
	}
	standing, err := s.Share(t.Context(), share)
	require.NoError(t, err)
	require.Len(t, s.said(t, standing.Body), 50)
	standing, err = s.QueryShare(t.Context(), share)
	require.NoError(t, err)
	require.Len(t, s.said(t, standing.Body), 50, "over the pages of a list")
}

func TestAReturnIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	shared, err := s.Share(t.Context(), shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300}))
	require.NoError(t, err)
	r := channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", ShareID: shared.ShareID, Account: anna, Amount: 120, Currency: "USD", Reason: "refund"}

	standing, err := s.QueryReturn(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnUnknown, standing.State)
	first, err := s.ReturnShare(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnSucceeded, first.State)
	s.sim.ForgetKeys()
	for _, known := range []string{shared.ShareID, ""} {
		r.ShareID = known
		again, err := s.ReturnShare(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, first, again)
		standing, err = s.QueryReturn(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, first, standing)
	}
	require.Equal(t, 1, s.calls("return_share"))

	e := s.said(t, shared.Body)[0]
	byCallback, times := s.told("stripe:" + e.Subject + ":PROFIT_SHARE_RESULT")
	require.Equal(t, 2, times, "transfer.created and transfer.reversed")
	require.Equal(t, e, byCallback, "the leg was paid, whatever came back")

	more := r
	more.OutReturnNo, more.Amount = "return-2", 181
	_, err = s.ReturnShare(t.Context(), more)
	require.True(t, channel.Definite(err), "more than is left of the transfer")
	other := r
	other.Amount = 121
	_, err = s.ReturnShare(t.Context(), other)
	definite(t, err, "return_differs")
	nobody := r
	nobody.Account = ben
	_, err = s.ReturnShare(t.Context(), nobody)
	definite(t, err, "transfer_missing")
	standing, err = s.QueryReturn(t.Context(), nobody)
	require.NoError(t, err)
	require.Equal(t, channel.ReturnUnknown, standing.State)
}

func TestASharingThatBrokeOffIsCompleted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, id := s.sell(t, order("order-1"))
	share := shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300}, channel.ShareReceiver{Account: ben, Amount: 200})
	_, err := s.Share(t.Context(), shareOf(id, "share-1", share.Receivers[0]))
	require.NoError(t, err)
	standing, err := s.QueryShare(t.Context(), share)
	require.NoError(t, err)
	require.False(t, standing.Known, "one leg is missing")
	s.lose("share")
	_, err = s.Share(t.Context(), share)
	unknown(t, err, "the second leg's answer never came")
	made := s.calls("share")
	s.misbehave(simulator.Faults{})
	standing, err = s.Share(t.Context(), share)
	require.NoError(t, err)
	require.True(t, standing.Ended())
	standing, err = s.QueryShare(t.Context(), share)
	require.NoError(t, err)
	require.True(t, standing.Known)
	require.Equal(t, made, s.calls("share"), "the second leg was found, not paid again")
	require.Len(t, s.said(t, standing.Body), 2)
}
