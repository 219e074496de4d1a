package e2e_test

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	"github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// sharing is a channel of its own, simulated, and how its receivers are named.
type sharing struct {
	sim    simulator.Simulator
	method string
	a, b   string
}

func weChatPay() sharing { return sharing{wechatpay.New(), "native", "1900000109", "1900000110"} }

func channels() map[string]sharing {
	return map[string]sharing{
		"wechatpay": weChatPay(),
		"alipay":    {alipay.New(), "qr", "2088102175792001", "2088102175792002"},
		"stripe":    {stripe.New(), "card", "acct_1AAAAAAAAAAAAAAA", "acct_1BBBBBBBBBBBBBBB"},
	}
}

// newSale gives a house that channels can call back.
func newSale(t *testing.T) (*testhouse.House, client.Client) {
	t.Helper()
	h, c := newStory(t)
	h.PublicURL = serve(t, h, start.New(c)).URL
	return testhouse.Reopen(t, h, start.New(c)), c
}

// sold has an order of 645 paid at the channel, to be shared at 30 to 70.
func sold(t *testing.T, h *testhouse.House, s sharing, order string) {
	t.Helper()
	if h.Count(t, "SELECT count(*) FROM channel_accounts WHERE channel = $1", s.sim.Name()) == 0 {
		gateway := httptest.NewServer(s.sim.Handler())
		t.Cleanup(func() { gateway.Close(); s.sim.Core().Close() })
		require.NoError(t, h.Accounts.Add(t.Context(), h.Tenant, s.sim.Name(), s.sim.Name()+"-"+h.Tenant, s.sim.Config(gateway.URL)))
	}
	plan, err := share.ParsePlan(json.RawMessage(`{"receivers":[{"account":"` + s.a + `","ratio":30},{"account":"` + s.b + `","ratio":70}]}`))
	require.NoError(t, err)
	request := testhouse.Order(order, 645)
	request.Channel, request.Method, request.Description, request.SharingPlan = s.sim.Name(), s.method, "a book", plan.JSON()
	p := h.Create(t, request)
	state, err := h.Acquiring.Prepay(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, payment.PrepayReady, state)
	require.NoError(t, s.sim.Pay(order))
	_, err = h.Acquiring.Inquire(t.Context(), p.ID)
	require.NoError(t, err)
	requireState(t, h, order, payment.Paid)
	// The channel's fee, where the answer tells it, is booked by a flow of its own.
	require.Eventually(t, func() bool {
		return h.Count(t, "SELECT count(*) FROM channel_events WHERE tenant_id = $1 AND state = 'RECEIVED'", h.Tenant) == 0
	}, 30*time.Second, 20*time.Millisecond)
}

// plan shares an order as its sale said.
func plan(t *testing.T, h *testhouse.House, order, number string) share.Share {
	t.Helper()
	sh, created, err := h.Shares.Create(t.Context(), share.Request{TenantID: h.Tenant, OutTradeNo: order, OutOrderNo: number})
	require.NoError(t, err)
	require.True(t, created)
	return sh
}

// requireParts holds the receivers to what they got.
func requireParts(t *testing.T, h *testhouse.House, s sharing, a, b int) {
	t.Helper()
	require.Equal(t, a, h.Balance(t, share.ReceiverCode(s.a)))
	require.Equal(t, b, h.Balance(t, share.ReceiverCode(s.b)))
	require.Zero(t, h.Count(t, "SELECT coalesce(sum(held), 0) FROM ledger_accounts WHERE tenant_id = $1", h.Tenant))
	h.RequireInvariants(t)
}

// numbers lists the numbers that calls of a kind named, each once.
func numbers(s sharing, kind string) (list []string) {
	for _, call := range s.sim.Core().Calls(kind) {
		if !slices.Contains(list, call.Number) {
			list = append(list, call.Number)
		}
	}
	return list
}

func TestASharingAtEachChannel(t *testing.T) {
	for name, s := range channels() {
		t.Run(name, func(t *testing.T) {
			h, c := newSale(t)
			work(t, h, c)
			sold(t, h, s, "order-0") // the channel's fees are the merchant's to pay
			sold(t, h, s, "order-1")
			before := h.Balance(t, "merchant")
			plan(t, h, "order-1", "s")
			sh := requireShare(t, h, "s", share.Succeeded)
			require.NotEmpty(t, sh.ShareID)
			requireParts(t, h, s, 194, 451)
			require.Equal(t, before-645, h.Balance(t, "merchant"))
			recordShare(t, h, c, "s", "share_at_"+name)
		})
	}
}

func TestAReceiverWhoGetsNothingAtWeChatPay(t *testing.T) {
	h, c := newSale(t)
	work(t, h, c)
	s := weChatPay()
	sold(t, h, s, "order-1")
	s.sim.Core().Misbehave(simulator.Faults{Hold: true})
	plan(t, h, "order-1", "s")
	requireShare(t, h, "s", share.Processing)
	require.NoError(t, s.sim.SettleShare("s", s.b))
	sh := requireShare(t, h, "s", share.Partial)
	require.NotEmpty(t, sh.Legs[1].Reason, "the channel's word")
	requireParts(t, h, s, 194, 0)
	require.Equal(t, 451, h.Balance(t, "merchant"))
	recordShare(t, h, c, "s", "share_partial")
}

// Whatever the channel does with an answer, there is one sharing under one number.
func TestAnswersOfASharingThatAreLost(t *testing.T) {
	for name, faults := range map[string]simulator.Faults{
		"done, and the answer is dropped":   {Drop: 1, Only: "share"},
		"done, and the answer is forged":    {Garble: 1, Only: "share"},
		"not done, with an error":           {Refuse: 2, Only: "share"},
		"the question is not answered":      {Refuse: 2, Only: "query_share"},
		"dropped, and then not even asked":  {Drop: 2},
		"all of it is forged for two calls": {Garble: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h, c := newSale(t)
			work(t, h, c)
			s := weChatPay()
			sold(t, h, s, "order-1")
			s.sim.Core().Misbehave(faults)
			plan(t, h, "order-1", "s")
			requireShare(t, h, "s", share.Succeeded)
			require.Equal(t, []string{"s"}, numbers(s, "share"), "one number for ever")
			requireParts(t, h, s, 194, 451)
		})
	}
}

// A worker is killed after the effect of each step and before it can report; another one brings the sharing to the same end.
func TestAWorkerKilledAfterEachStepOfASharingAtWeChatPay(t *testing.T) {
	for _, story := range []struct {
		step   string
		closed bool
		want   share.State
		b      int
	}{
		{workflows.ShareLookActivity, false, share.Succeeded, 451},
		{workflows.ShareCallActivity, false, share.Succeeded, 451},
		{workflows.ApplyEventActivity, false, share.Succeeded, 451},
		{workflows.ShareCallActivity, true, share.Partial, 0},
		{workflows.ApplyEventActivity, true, share.Partial, 0},
	} {
		t.Run(story.step+", "+string(story.want), func(t *testing.T) {
			h, c := newSale(t)
			stop := work(t, h, c)
			s := weChatPay()
			sold(t, h, s, "order-1")
			stop()
			s.sim.Core().Misbehave(simulator.Faults{Hold: true})
			plan(t, h, "order-1", "s")
			ended := startChild(t, h, workerThatDies+":"+story.step, "")
			if story.step == workflows.ApplyEventActivity {
				// The first call is answered, and the results are there when the flow asks again.
				require.Eventually(t, func() bool { return len(s.sim.Core().Calls("share")) > 0 }, 30*time.Second, 5*time.Millisecond)
				settle(t, s, story.closed)
			}
			requireKilled(t, ended)
			if story.step != workflows.ApplyEventActivity {
				settle(t, s, story.closed)
			}
			work(t, h, c)
			requireShare(t, h, "s", story.want)
			require.Equal(t, []string{"s"}, numbers(s, "share"))
			requireParts(t, h, s, 194, story.b)
		})
	}
}

func closed(is bool, account string) []string {
	if is {
		return []string{account}
	}
	return nil
}

// settle ends the legs of the sharing, or of whatever is still to be told to the channel.
func settle(t *testing.T, s sharing, bClosed bool) {
	t.Helper()
	if s.sim.SettleShare("s", closed(bClosed, s.b)...) != nil {
		s.sim.Core().Misbehave(simulator.Faults{}) // not told yet: it will end by itself
	}
}

func TestAFinishAtWeChatPay(t *testing.T) {
	h, c := newSale(t)
	work(t, h, c)
	s := weChatPay()
	sold(t, h, s, "order-1")
	hundred := int64(100)
	_, _, err := h.Shares.Create(t.Context(), share.Request{TenantID: h.Tenant, OutTradeNo: "order-1", OutOrderNo: "part", Receivers: []share.Receiver{{Account: s.a, Amount: &hundred}}})
	require.NoError(t, err)
	requireShare(t, h, "part", share.Succeeded)
	s.sim.Core().Misbehave(simulator.Faults{Drop: 1, Only: "finish_share"})
	_, _, err = h.Shares.Create(t.Context(), share.Request{TenantID: h.Tenant, OutTradeNo: "order-1", OutOrderNo: "end", Receivers: []share.Receiver{}, Finish: true})
	require.NoError(t, err)
	requireShare(t, h, "end", share.Succeeded)
	require.Equal(t, []string{"end"}, numbers(s, "finish_share"))
	_, _, err = h.Shares.Create(t.Context(), share.Request{TenantID: h.Tenant, OutTradeNo: "order-1", OutOrderNo: "late"})
	require.ErrorIs(t, err, share.ErrFinished)
	requireParts(t, h, s, 100, 0)
	recordShare(t, h, c, "end", "share_finish")
}

func TestASharingThatFinishesAsItShares(t *testing.T) {
	for name, s := range channels() {
		t.Run(name, func(t *testing.T) {
			h, c := newSale(t)
			work(t, h, c)
			sold(t, h, s, "order-0") // the channel's fees are the merchant's to pay
			sold(t, h, s, "order-1")
			hundred := int64(100)
			_, _, err := h.Shares.Create(t.Context(), share.Request{
				TenantID: h.Tenant, OutTradeNo: "order-1", OutOrderNo: "all", Receivers: []share.Receiver{{Account: s.a, Amount: &hundred}}, Finish: true,
			})
			require.NoError(t, err)
			requireShare(t, h, "all", share.Succeeded)
			requireParts(t, h, s, 100, 0)
			// What is released to the merchant is no receiver's, and nobody has to look at it.
			require.Zero(t, h.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'PARKED'"))
		})
	}
}

func TestASharingThatIsRefusedAndTakenUpAgain(t *testing.T) {
	h, c := newSale(t)
	work(t, h, c)
	s := weChatPay()
	sold(t, h, s, "order-1")
	// A dot is no letter of a number at WeChat Pay: it refuses before it does anything.
	plan(t, h, "order-1", "s.1")
	sh := requireShare(t, h, "s.1", share.Refused)
	require.NotEmpty(t, sh.Reason)
	requireParts(t, h, s, 0, 0)
	requireClosed(t, c, workflows.ShareID(h.Tenant, "s.1"))
	again, err := h.Shares.Retry(t.Context(), h.Tenant, "s.1")
	require.NoError(t, err)
	require.Equal(t, share.Pending, again.State)
	require.Equal(t, 1, requireShare(t, h, "s.1", share.Refused).Retries, "refused again, under the same number")
	plan(t, h, "order-1", "s")
	requireShare(t, h, "s", share.Succeeded)
	requireParts(t, h, s, 194, 451)
	require.Equal(t, []string{"s"}, numbers(s, "share"))
}
