package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/workflows"
)

// fund gives accounts a and b 1000 each.
func fund(t *testing.T, h *testhouse.House) {
	t.Helper()
	require.NoError(t, database.InTx(t.Context(), h.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: h.Tenant, Key: "fund", Kind: "posting", Lines: []ledger.Line{
			{Code: "bank", Currency: "CNY", Amount: -2000, AllowNegative: true}, {Code: "a", Currency: "CNY", Amount: 1000}, {Code: "b", Currency: "CNY", Amount: 1000},
		}})
		return err
	}))
}

func pay(h *testhouse.House, key string, amount int64, more ...transfer.Leg) transfer.Request {
	return transfer.Request{TenantID: h.Tenant, IdempotencyKey: key, Mode: transfer.TCC, Legs: append([]transfer.Leg{
		{Type: transfer.LedgerLeg, Account: "a", Amount: -amount, Currency: "CNY"},
		{Type: transfer.LedgerLeg, Account: "b", Amount: amount, Currency: "CNY"},
	}, more...)}
}

func begin(t *testing.T, h *testhouse.House, r transfer.Request) transfer.Transfer {
	t.Helper()
	got, _, err := h.Transfers.Create(t.Context(), r)
	require.NoError(t, err)
	return got
}

func requireTransfer(t *testing.T, h *testhouse.House, id int64, want transfer.State) transfer.Transfer {
	t.Helper()
	var got transfer.Transfer
	require.Eventually(t, func() bool {
		var err error
		got, err = transfer.Find(t.Context(), h.Engine, h.Tenant, id)
		return err == nil && got.State == want
	}, 60*time.Second, 20*time.Millisecond, "transfer %d never became %s", id, want)
	return got
}

func requireBalances(t *testing.T, h *testhouse.House, a, b int) {
	t.Helper()
	require.Equal(t, a, h.Balance(t, "a"))
	require.Equal(t, b, h.Balance(t, "b"))
	require.Zero(t, h.Count(t, "SELECT coalesce(sum(held), 0) FROM ledger_accounts WHERE tenant_id = $1", h.Tenant))
	h.RequireInvariants(t)
}

// depot is an external participant that remembers what it was told, and can be told how to behave.
type depot struct {
	mu     sync.Mutex
	calls  map[string]int
	answer func(phase string, attempt int) int
}

func newDepot(t *testing.T, h *testhouse.House, answer func(phase string, attempt int) int) *depot {
	t.Helper()
	d := &depot{calls: map[string]int{}, answer: answer}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the signature is the transfer package's test
		phase := strings.TrimPrefix(r.URL.Path, "/")
		d.mu.Lock()
		d.calls[phase]++
		attempt := d.calls[phase]
		d.mu.Unlock()
		w.WriteHeader(d.answer(phase, attempt))
	}))
	t.Cleanup(srv.Close)
	config, err := json.Marshal(transfer.ParticipantConfig{TryURL: srv.URL + "/try", ConfirmURL: srv.URL + "/confirm", CancelURL: srv.URL + "/cancel", Secret: testhouse.NewSecret()})
	require.NoError(t, err)
	require.NoError(t, h.Transfers.PutParticipant(t.Context(), h.Tenant, "depot", config))
	return d
}

func (d *depot) told(phase string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[phase]
}

var leg = transfer.Leg{Type: transfer.HTTPLeg, Participant: "depot", Body: json.RawMessage(`{"item":7}`)}

func TestATransferOfLocalLegsThroughTheFlow(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	fund(t, h)
	done := begin(t, h, pay(h, "k", 100))
	requireTransfer(t, h, done.ID, transfer.Confirmed)
	requireClosed(t, c, workflows.TransferID(done.GID))
	events := historyOf(t, c, workflows.TransferID(done.GID))
	tasks := 0
	for _, e := range events.Events {
		if e.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED {
			tasks++
		}
	}
	require.Equal(t, 1, tasks, "both steps in one workflow task")
	record(t, "transfer_tried_as_made", events)
	// An operator finds it by its id, which begins with the tenant.
	query := `WorkflowType = "Transfer" AND WorkflowId STARTS_WITH "transfer/` + h.Tenant + `/"`
	require.Eventually(t, func() bool {
		found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		return err == nil && len(found.Executions) == 1 && found.Executions[0].Execution.WorkflowId == workflows.TransferID(done.GID)
	}, 10*time.Second, 50*time.Millisecond, query)

	refused := requireTransfer(t, h, begin(t, h, pay(h, "too much", 5000)).ID, transfer.Cancelled)
	require.Equal(t, transfer.InsufficientFunds, *refused.Failure)
	requireClosed(t, c, workflows.TransferID(refused.GID))
	record(t, "transfer_refused", historyOf(t, c, workflows.TransferID(refused.GID)))
	requireBalances(t, h, 900, 1100)
}

func TestAnExternalParticipant(t *testing.T) {
	for name, story := range map[string]struct {
		answer  func(phase string, attempt int) int
		want    transfer.State
		failure string
	}{
		"confirms": {func(string, int) int { return 200 }, transfer.Confirmed, ""},
		"stumbles and confirms": {func(phase string, attempt int) int {
			if attempt == 1 {
				return 503
			}
			return 200
		}, transfer.Confirmed, ""},
		"refuses": {func(phase string, _ int) int {
			if phase == "try" {
				return 422
			}
			return 200
		}, transfer.Cancelled, transfer.ParticipantRefused},
		"is away, and is told to cancel": {func(phase string, _ int) int {
			if phase == "try" {
				return 500
			}
			return 200
		}, transfer.Cancelled, transfer.ParticipantAway},
		"refuses even to confirm, for a while": {func(phase string, attempt int) int {
			if phase == "confirm" && attempt < 3 {
				return 422
			}
			return 200
		}, transfer.Confirmed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, c := newStory(t)
			work(t, h, c)
			fund(t, h)
			d := newDepot(t, h, story.answer)
			got := requireTransfer(t, h, begin(t, h, pay(h, "k", 100, leg)).ID, story.want)
			if story.want == transfer.Confirmed {
				require.Positive(t, d.told("confirm"))
				require.Zero(t, d.told("cancel"))
				requireBalances(t, h, 900, 1100)
			} else {
				require.Equal(t, story.failure, *got.Failure)
				require.Positive(t, d.told("cancel"), "what may have been tried is cancelled")
				require.Zero(t, d.told("confirm"))
				requireBalances(t, h, 1000, 1000)
			}
			requireClosed(t, c, workflows.TransferID(got.GID))
			record(t, "transfer_external_"+strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "_"), historyOf(t, c, workflows.TransferID(got.GID)))
		})
	}
}

func TestCancellingTheFlowCompensatesUntilTheDecisionAndNeverAfter(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	fund(t, h)
	tried := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	newDepot(t, h, func(phase string, _ int) int {
		if phase == "try" {
			once.Do(func() { close(tried) })
			<-release
		}
		return 200
	})
	t.Cleanup(func() { close(release) })
	got := begin(t, h, pay(h, "k", 100, leg))
	<-tried
	require.Equal(t, 1, h.Count(t, "SELECT count(*) FROM holds WHERE captured + released < amount"))
	require.NoError(t, c.CancelWorkflow(t.Context(), workflows.TransferID(got.GID), ""))
	ended := requireTransfer(t, h, got.ID, transfer.Cancelled)
	require.Equal(t, transfer.Canceled, *ended.Failure)
	requireBalances(t, h, 1000, 1000)

	// After the decision a cancellation changes nothing.
	confirming := make(chan struct{})
	var confirmOnce sync.Once
	var goOn sync.WaitGroup
	goOn.Add(1)
	newDepot(t, h, func(phase string, _ int) int {
		if phase == "confirm" {
			confirmOnce.Do(func() { close(confirming) })
			goOn.Wait()
		}
		return 200
	})
	got = begin(t, h, pay(h, "k2", 100, leg))
	<-confirming
	require.NoError(t, c.CancelWorkflow(t.Context(), workflows.TransferID(got.GID), ""))
	goOn.Done()
	requireTransfer(t, h, got.ID, transfer.Confirmed)
	requireBalances(t, h, 900, 1100)
}

// The worker is killed after the effect of each step and before it can report; another one brings the transfer to its end.
func TestAWorkerKilledAfterEachStepOfATransfer(t *testing.T) {
	for _, story := range []struct {
		step     string
		external bool
		amount   int64
		want     transfer.State
	}{
		{workflows.TransferTryActivity, true, 100, transfer.Confirmed}, // money alone is tried as it is made
		{workflows.TransferTryActivity, false, 5000, transfer.Cancelled},
		{workflows.TransferSettleActivity, false, 100, transfer.Confirmed},
		{workflows.TransferSettleActivity, false, 5000, transfer.Cancelled},
		{workflows.TransferDecideActivity, true, 5000, transfer.Cancelled},
		{workflows.TransferEndActivity, true, 5000, transfer.Cancelled},
		{workflows.ParticipantActivity, true, 100, transfer.Confirmed},
		{workflows.TransferDecideActivity, true, 100, transfer.Confirmed},
		{workflows.TransferEndActivity, true, 100, transfer.Confirmed},
		{workflows.TransferEndActivity + second, true, 100, transfer.Confirmed},
	} {
		t.Run(fmt.Sprintf("%s, %s", story.step, story.want), func(t *testing.T) {
			h, c := newStory(t)
			fund(t, h)
			var more []transfer.Leg
			if story.external {
				newDepot(t, h, func(string, int) int { return http.StatusOK })
				more = append(more, leg)
			}
			got := begin(t, h, pay(h, "k", story.amount, more...))
			requireKilled(t, startChild(t, h, workerThatDies+":"+story.step, ""))
			work(t, h, c)
			requireTransfer(t, h, got.ID, story.want)
			if story.want == transfer.Confirmed {
				requireBalances(t, h, 900, 1100)
			} else {
				requireBalances(t, h, 1000, 1000)
			}
		})
	}
}

func TestATerminatedTransferIsBroughtToItsEnd(t *testing.T) {
	h, c := newStory(t)
	fund(t, h)
	got := begin(t, h, pay(h, "k", 100))
	require.NoError(t, c.TerminateWorkflow(t.Context(), workflows.TransferID(got.GID), "", "by mistake"))
	h.Clock.Pass(2 * time.Minute)
	work(t, h, c)
	requireTransfer(t, h, got.ID, transfer.Confirmed)
	requireBalances(t, h, 900, 1100)
	again := begin(t, h, pay(h, "k", 100))
	require.Equal(t, got.ID, again.ID)
	require.Equal(t, transfer.Confirmed, again.State)
}
