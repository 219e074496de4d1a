package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// paidOrder is a paid order of 9900.
func paidOrder(t *testing.T, h *testhouse.House, base, order string) {
	t.Helper()
	h.Create(t, testhouse.Order(order, 9900))
	require.Equal(t, http.StatusOK, callback(h, base, paid(t, order)))
	requireState(t, h, order, payment.Paid)
}

// divide shares an order at 30 to 70.
func divide(t *testing.T, h *testhouse.House, order, number string) share.Share {
	t.Helper()
	thirty, seventy := int64(30), int64(70)
	sh, created, err := h.Shares.Create(t.Context(), share.Request{TenantID: h.Tenant, OutTradeNo: order, OutOrderNo: number, Receivers: []share.Receiver{
		{Account: "a", Ratio: &thirty}, {Account: "b", Ratio: &seventy},
	}})
	require.NoError(t, err)
	require.True(t, created)
	return sh
}

// results is the standard channel's message about the legs of a sharing.
func results(t *testing.T, number string, legs ...standard.Receiver) []byte {
	t.Helper()
	body, err := json.Marshal(standard.Message{Type: "share.result", Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: standard.Data{
		ShareID: "id-" + number, OutOrderNo: number, Currency: "CNY", Receivers: legs,
	}})
	require.NoError(t, err)
	return body
}

var (
	aPaid   = standard.Receiver{Account: "a", Amount: 2970, State: "SUCCEEDED"}
	bPaid   = standard.Receiver{Account: "b", Amount: 6930, State: "SUCCEEDED"}
	bClosed = standard.Receiver{Account: "b", Amount: 6930, State: "CLOSED"}
)

func requireShare(t *testing.T, h *testhouse.House, number string, want share.State) share.Share {
	t.Helper()
	var sh share.Share
	require.Eventually(t, func() bool {
		var err error
		sh, err = share.Find(t.Context(), h.Engine, h.Tenant, number)
		return err == nil && sh.State == want
	}, 60*time.Second, 20*time.Millisecond, "sharing %s never became %s", number, want)
	return sh
}

func requireShared(t *testing.T, h *testhouse.House, a, b int) {
	t.Helper()
	require.Equal(t, a, h.Balance(t, "receiver:a"))
	require.Equal(t, b, h.Balance(t, "receiver:b"))
	require.Zero(t, h.Count(t, "SELECT coalesce(sum(held), 0) FROM ledger_accounts WHERE tenant_id = $1", h.Tenant))
	h.RequireInvariants(t)
}

func recordShare(t *testing.T, h *testhouse.House, c client.Client, number, name string) {
	t.Helper()
	id := workflows.ShareID(h.Tenant, number)
	requireClosed(t, c, id)
	record(t, name, historyOf(t, c, id))
}

func TestASharingWhoseResultsComeByCallback(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	srv := serve(t, h, start.New(c))
	paidOrder(t, h, srv.URL, "o")
	divide(t, h, "o", "s")
	for range 3 {
		require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "s", aPaid)))
	}
	requireShare(t, h, "s", share.Processing)
	require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "s", aPaid, bPaid)))
	requireShare(t, h, "s", share.Succeeded)
	requireShared(t, h, 2970, 6930)
	recordShare(t, h, c, "s", "share_results_by_callback")

	paidOrder(t, h, srv.URL, "p")
	divide(t, h, "p", "partial")
	require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "partial", bClosed, aPaid)))
	requireShare(t, h, "partial", share.Partial)
	requireShared(t, h, 2*2970, 6930)
	require.Equal(t, 6930, h.Balance(t, "merchant"))
}

func TestAResultThatOvertakesItsSharing(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	srv := serve(t, h, start.New(c))
	paidOrder(t, h, srv.URL, "o")
	require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "s", bPaid, aPaid)), "stored, though nobody knows it")
	divide(t, h, "o", "s")
	requireShare(t, h, "s", share.Succeeded)
	requireShared(t, h, 2970, 6930)
}

// The worker is killed after the effect of each step and before it can report; another one brings the sharing to its end.
func TestAWorkerKilledAfterEachStepOfASharing(t *testing.T) {
	for _, step := range []string{workflows.ShareLookActivity, workflows.ApplyEventActivity} {
		t.Run(step, func(t *testing.T) {
			h, c := newStory(t)
			stop := work(t, h, c)
			srv := serve(t, h, start.New(c))
			paidOrder(t, h, srv.URL, "o")
			stop()
			divide(t, h, "o", "s")
			require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "s", aPaid, bPaid)))
			requireKilled(t, startChild(t, h, workerThatDies+":"+step, ""))
			work(t, h, c)
			requireShare(t, h, "s", share.Succeeded)
			requireShared(t, h, 2970, 6930)
		})
	}
}

func TestATerminatedSharingIsBroughtToItsEnd(t *testing.T) {
	h, c := newStory(t)
	stop := work(t, h, c)
	srv := serve(t, h, start.New(c))
	paidOrder(t, h, srv.URL, "o")
	divide(t, h, "o", "s")
	require.NoError(t, c.TerminateWorkflow(t.Context(), workflows.ShareID(h.Tenant, "s"), "", "by mistake"))
	stop()
	require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "s", aPaid)), "its flow is gone: the event gets one of its own")
	work(t, h, c)
	requireShare(t, h, "s", share.Processing)
	h.Clock.Pass(6 * time.Minute)
	require.Eventually(t, func() bool {
		described, err := c.DescribeWorkflow(t.Context(), workflows.ShareID(h.Tenant, "s"), "")
		return err == nil && described.WorkflowCloseTime == nil
	}, 30*time.Second, 50*time.Millisecond, "the same id runs again")
	require.Equal(t, http.StatusOK, callback(h, srv.URL, results(t, "s", bPaid)))
	requireShare(t, h, "s", share.Succeeded)
	require.Equal(t, 2970, h.Balance(t, "receiver:a"))
	require.Equal(t, 6930, h.Balance(t, "receiver:b"))
}
