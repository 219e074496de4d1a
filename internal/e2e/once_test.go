package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

func post(url string, header http.Header, body []byte) int {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	request.Header = header
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestTheSameCallbackThreeTimesFiftyAtOnceAndAfterARestartOfEverything(t *testing.T) {
	h, c := newStory(t)
	stopWork := work(t, h, c)
	one, two := serve(t, h, start.New(c)), serve(t, h, start.New(c))
	h.Create(t, testhouse.Order("thrice", 9900))
	h.Create(t, testhouse.Order("fifty", 9900))

	for range 3 {
		require.Equal(t, http.StatusOK, callback(h, one.URL, paid(t, "thrice")))
	}
	body := paid(t, "fifty")
	acks := make([]int, 50)
	var all sync.WaitGroup
	for i := range acks {
		all.Go(func() {
			// As a channel does: what could not be stored in time, on a busy machine, is sent again.
			for range 10 {
				if acks[i] = callback(h, []string{one.URL, two.URL}[i%2], body); acks[i] != http.StatusServiceUnavailable {
					return
				}
			}
		})
	}
	all.Wait()
	for _, ack := range acks {
		require.Equal(t, http.StatusOK, ack)
	}
	requireCreditedOnce(t, h, "thrice", "fifty")
	require.Len(t, runs(t, h, c, "fifty"), 1)

	// Restart everything. The engine of the tests forgets its workflows, as a real one does after its retention.
	stopWork()
	one.Close()
	two.Close()
	require.NoError(t, devstack.TestPostgres().Stop())
	require.NoError(t, devstack.TestTemporal().Stop())
	require.NoError(t, devstack.TestPostgres().Start(t.Context()))
	require.NoError(t, devstack.TestTemporal().Start(t.Context()))
	c = newClient(t)
	again := testhouse.Reopen(t, h, start.New(c))
	work(t, again, c)
	srv := serve(t, again, start.New(c))
	for _, order := range []string{"thrice", "fifty"} {
		require.Equal(t, http.StatusOK, callback(again, srv.URL, paid(t, order)))
	}
	requireCreditedOnce(t, again, "thrice", "fifty")
	require.Empty(t, runs(t, again, c, "fifty"), "a duplicate of a DONE event starts nothing, whatever the engine remembers")
}

func TestAPaidOrderCostsOneWorkflowTaskAndSixEvents(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	h.Create(t, testhouse.Order("o", 9900))
	require.Equal(t, http.StatusOK, callback(h, serve(t, h, start.New(c)).URL, paid(t, "o")))
	requireCreditedOnce(t, h, "o")
	id := workflows.PaymentID(h.Tenant, "o")
	requireClosed(t, c, id)

	events := historyOf(t, c, id)
	tasks := 0
	for _, e := range events.Events {
		if e.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED {
			tasks++
		}
	}
	require.Equal(t, 1, tasks)
	require.Len(t, events.Events, 6)
	record(t, "payment_credited", events)

	// An operator finds it by its id, which names the tenant and the order.
	for _, query := range []string{
		`WorkflowId = "pay/` + h.Tenant + `/o"`,
		`WorkflowType = "Payment" AND WorkflowId STARTS_WITH "pay/` + h.Tenant + `/"`,
	} {
		require.Eventually(t, func() bool {
			found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
			return err == nil && len(found.Executions) == 1 && found.Executions[0].Execution.WorkflowId == id
		}, 10*time.Second, 50*time.Millisecond, query)
	}
	described, err := c.DescribeWorkflow(t.Context(), id, "")
	require.NoError(t, err)
	summary, err := described.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "Payment o: 99.00 CNY by standard", summary)
}

func TestSecondLateAndStaleEventsAndTheirFlows(t *testing.T) {
	h, c := newStory(t)
	srv := serve(t, h, start.New(c))
	h.Create(t, testhouse.Order("o", 9900))
	// Two payments are there before anybody works: the flow books both and leaves no signal behind.
	require.Equal(t, http.StatusOK, callback(h, srv.URL, testhouse.Paid(t, "tx1", "o", 9900)))
	require.Equal(t, http.StatusOK, callback(h, srv.URL, testhouse.Paid(t, "tx2", "o", 9900)))
	work(t, h, c)
	requireEvents(t, h, "o", "DONE CREDITED", "DONE SECOND_PAYMENT")
	id := workflows.PaymentID(h.Tenant, "o")
	requireClosed(t, c, id)
	record(t, "payment_second_drained", historyOf(t, c, id))

	// A third one comes when the flow has ended: it gets a flow of its own.
	require.Equal(t, http.StatusOK, callback(h, srv.URL, testhouse.Paid(t, "tx3", "o", 9900)))
	requireEvents(t, h, "o", "DONE CREDITED", "DONE SECOND_PAYMENT", "DONE SECOND_PAYMENT")
	own := workflows.EventID(h.Account.ID, "standard:tx3:PAY_SUCCESS")
	requireClosed(t, c, own)
	record(t, "event_second_payment", historyOf(t, c, own))

	h.Create(t, testhouse.Order("closed", 9900))
	_, err := h.Orders.Close(t.Context(), h.Tenant, "closed")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, callback(h, srv.URL, paid(t, "closed")))
	requireEvents(t, h, "closed", "DONE LATE_PAYMENT")

	h.Create(t, testhouse.Order("ended", 9900))
	require.Equal(t, http.StatusOK, callback(h, srv.URL, testhouse.Body(t, "payment.closed", "tx", "ended", 9900, "CNY")))
	requireState(t, h, "ended", payment.Closed)
	id = workflows.PaymentID(h.Tenant, "ended")
	requireClosed(t, c, id)
	record(t, "payment_closed_by_channel", historyOf(t, c, id))

	require.Equal(t, 9900, h.Balance(t, "merchant"))
	require.Equal(t, 3*9900, h.Balance(t, "suspense"))
	h.RequireInvariants(t)
}

func TestARunThatAnOperatorTerminatedIsDrivenAgain(t *testing.T) {
	h, c := newStory(t)
	srv := serve(t, h, start.New(c))
	h.Create(t, testhouse.Order("o", 9900))
	require.Equal(t, http.StatusOK, callback(h, srv.URL, paid(t, "o")))
	id := workflows.PaymentID(h.Tenant, "o")
	require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", "by mistake"))

	h.Clock.Pass(payment.DefaultPlan.Received)
	work(t, h, c)
	requireCreditedOnce(t, h, "o")
	require.Len(t, runs(t, h, c, "o"), 2, "the same id runs again")
}

func requireEvents(t *testing.T, h *testhouse.House, order string, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := h.Events(t, order)
		if len(got) != len(want) {
			return false
		}
		for i := range got {
			if got[i] != want[i] {
				return false
			}
		}
		return true
	}, 30*time.Second, 20*time.Millisecond, "events of %s: %v, not %v", order, h.Events(t, order), want)
}

// runs lists the workflow runs of an order's flow.
func runs(t *testing.T, h *testhouse.House, c client.Client, order string) (ids []string) {
	t.Helper()
	query := `WorkflowId = "` + workflows.PaymentID(h.Tenant, order) + `"`
	// Visibility lags behind: what is there shows within a moment.
	time0 := time.Now()
	require.Eventually(t, func() bool {
		found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		if err != nil {
			return false
		}
		ids = nil
		for _, e := range found.Executions {
			ids = append(ids, e.Execution.RunId)
		}
		return time.Since(time0) > time.Second
	}, 10*time.Second, 50*time.Millisecond)
	return ids
}

func requireClosed(t *testing.T, c client.Client, id string) {
	t.Helper()
	require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
}

func historyOf(t *testing.T, c client.Client, id string) *history.History {
	t.Helper()
	h := &history.History{}
	events := c.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, e)
	}
	return h
}

// record keeps a history for the replay test when PAYLATCH_RECORD_HISTORIES names a directory. Recorded histories are
// those of released code: add files, never replace them.
func record(t *testing.T, name string, h *history.History) {
	t.Helper()
	dir := os.Getenv("PAYLATCH_RECORD_HISTORIES")
	if dir == "" {
		return
	}
	text, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), text, 0o644))
}
