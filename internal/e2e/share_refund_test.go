package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/workflows"
)

// refundOf asks for a refund of order-1.
func refundOf(t *testing.T, h *testhouse.House, number string, amount int64) {
	t.Helper()
	_, created, err := h.Refunds.Create(t.Context(), refund.Request{TenantID: h.Tenant, OutTradeNo: "order-1", OutRefundNo: number, Amount: amount})
	require.NoError(t, err)
	require.True(t, created)
}

func requireRefundIs(t *testing.T, h *testhouse.House, number string, want refund.State) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := refund.Find(t.Context(), h.Engine, h.Tenant, number)
		return err == nil && r.State == want
	}, 90*time.Second, 20*time.Millisecond, "refund %s never became %s", number, want)
}

// requireAllBack holds that everything went back to the payer, and nobody has or owes anything.
func requireAllBack(t *testing.T, h *testhouse.House, s sharing) {
	t.Helper()
	require.Zero(t, h.Balance(t, share.ReceivableCode(s.a)))
	require.Zero(t, h.Balance(t, share.ReceivableCode(s.b)))
	require.Equal(t, 645, h.Count(t, "SELECT refunded_amount FROM payments WHERE tenant_id = $1 AND out_trade_no = 'order-1'", h.Tenant))
	requireParts(t, h, s, 0, 0)
}

func TestARefundAfterASharingAtEachChannel(t *testing.T) {
	for name, s := range channels() {
		t.Run(name, func(t *testing.T) {
			h, c := newSale(t)
			work(t, h, c)
			sold(t, h, s, "order-0") // the channel's fees are the merchant's to pay
			sold(t, h, s, "order-1")
			plan(t, h, "order-1", "share-1")
			requireShare(t, h, "share-1", share.Succeeded)
			before := h.Balance(t, "merchant")
			for i := range 3 {
				number := fmt.Sprint("refund-", i)
				refundOf(t, h, number, 215)
				requireRefundIs(t, h, number, refund.Succeeded)
			}
			requireAllBack(t, h, s)
			require.GreaterOrEqual(t, h.Balance(t, "merchant"), before, "no part of it is the merchant's, and fees may come back")
			require.Len(t, numbers(s, "refund"), 3)
			record(t, "refund_of_shared_at_"+name, historyOf(t, c, workflows.RefundID(h.Tenant, "refund-0")))
		})
	}
}

func TestAnswersOfAReturnThatAreLost(t *testing.T) {
	for name, faults := range map[string]simulator.Faults{
		"done, and the answer is dropped": {Drop: 1, Only: "return_share"},
		"done, and the answer is forged":  {Garble: 2, Only: "return_share"},
		"not done, with an error":         {Refuse: 1, Only: "return_share"},
		"the question is not answered":    {Drop: 1, Refuse: 1, Only: "query_return"},
	} {
		t.Run(name, func(t *testing.T) {
			h, c := newSale(t)
			work(t, h, c)
			s := weChatPay()
			sold(t, h, s, "order-1")
			plan(t, h, "order-1", "share-1")
			requireShare(t, h, "share-1", share.Succeeded)
			s.sim.Core().Misbehave(faults)
			refundOf(t, h, "refund-1", 645)
			requireRefundIs(t, h, "refund-1", refund.Succeeded)
			require.Len(t, numbers(s, "return_share"), 2, "one number for each receiver, for ever")
			requireAllBack(t, h, s)
		})
	}
}

// A worker is killed after the effect of each step of a refund that takes back; another one brings it to the same end.
func TestAWorkerKilledAfterEachStepOfARefundOfASharedPayment(t *testing.T) {
	for _, step := range []string{workflows.RefundLookActivity, workflows.RefundAdvanceActivity, workflows.ApplyEventActivity} {
		t.Run(step, func(t *testing.T) {
			h, c := newSale(t)
			stop := work(t, h, c)
			s := weChatPay()
			sold(t, h, s, "order-1")
			plan(t, h, "order-1", "share-1")
			requireShare(t, h, "share-1", share.Succeeded)
			stop()
			refundOf(t, h, "refund-1", 645)
			requireKilled(t, startChild(t, h, workerThatDies+":"+step, ""))
			work(t, h, c)
			requireRefundIs(t, h, "refund-1", refund.Succeeded)
			require.Len(t, numbers(s, "return_share"), 2)
			require.Equal(t, []string{"refund-1"}, numbers(s, "refund"))
			requireAllBack(t, h, s)
		})
	}
}

func TestWhatReceiversOweIsCollectedAtWeChatPay(t *testing.T) {
	h, c := newSale(t)
	work(t, h, c)
	s := weChatPay()
	sold(t, h, s, "order-1")
	plan(t, h, "order-1", "share-1")
	requireShare(t, h, "share-1", share.Succeeded)
	require.NoError(t, tenant.SetPolicy(t.Context(), h.Engine, h.Tenant, tenant.Policy{RefundOfShared: tenant.Receivable}))
	sold(t, h, s, "order-2") // so that the merchant has money
	refundOf(t, h, "refund-1", 300)
	requireRefundIs(t, h, "refund-1", refund.Succeeded)
	require.Equal(t, 90, h.Balance(t, share.ReceivableCode(s.a)))
	require.Equal(t, 210, h.Balance(t, share.ReceivableCode(s.b)))
	require.Empty(t, numbers(s, "return_share"), "nobody was asked")
	s.sim.Core().Misbehave(simulator.Faults{Drop: 1, Only: "return_share"})
	_, err := h.Shares.Collect(t.Context(), h.Tenant, "share-1", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return h.Balance(t, share.ReceivableCode(s.a)) == 0 && h.Balance(t, share.ReceivableCode(s.b)) == 0
	}, 60*time.Second, 50*time.Millisecond)
	require.Len(t, numbers(s, "return_share"), 2)
	requireParts(t, h, s, 104, 241)
	id := workflows.ShareReturnsID(h.Tenant, "share-1")
	requireClosed(t, c, id)
	record(t, "share_returns_collected", historyOf(t, c, id))
}
