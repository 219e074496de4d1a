package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// heldUp is an engine that does not take a start before it is let.
type heldUp struct {
	client.Client
	let chan struct{}
}

func (h heldUp) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, flow any, args ...any) (client.WorkflowRun, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.let:
	}
	return h.Client.ExecuteWorkflow(ctx, o, flow, args...)
}

func TestAnEagerStartThatTakesLongerThanTheCallbackLosesNothing(t *testing.T) {
	c := newClient(t)
	slow := heldUp{c, make(chan struct{})}
	h := testhouse.New(t, start.New(slow))
	// Nothing is driven again here: what a start loses stays lost.
	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() {
		worked <- worker.Run(ctx, worker.Config{
			Client: c, Queues: []string{workflows.PaymentsQueue}, Log: h.Log, DatabaseConnections: 8, Serves: worker.Activities{Books: h.Books, Log: h.Log},
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-worked)
	})
	h.Create(t, testhouse.Order("slow", 9900))

	require.Equal(t, payment.Received, h.Report(t, paid(t, "slow")).State) // the hand-over has taken its time, and was given up
	close(slow.let)

	requireCreditedOnce(t, h, "slow")
	tasks := 0
	history := c.GetWorkflowHistory(t.Context(), workflows.PaymentID(h.Tenant, "slow"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		if event.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED {
			tasks++
		}
	}
	require.Equal(t, 1, tasks, "the task that came with the answer is the one that was done")
}
