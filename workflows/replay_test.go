package workflows_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/paylatch/paylatch/workflows"
)

// Histories under testdata were recorded from released code on a real server (see docs/development.md). Code that cannot
// replay one of them would break flows that are running when it is deployed: version the change, never the history.
func TestStoredHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 28)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(workflows.Payment, workflow.RegisterOptions{Name: workflows.PaymentWorkflow})
			replayer.RegisterWorkflowWithOptions(workflows.Event, workflow.RegisterOptions{Name: workflows.EventWorkflow})
			replayer.RegisterWorkflowWithOptions(workflows.Transfer, workflow.RegisterOptions{Name: workflows.TransferWorkflow})
			replayer.RegisterWorkflowWithOptions(workflows.ProfitShare, workflow.RegisterOptions{Name: workflows.ProfitShareWorkflow})
			replayer.RegisterWorkflowWithOptions(workflows.Refund, workflow.RegisterOptions{Name: workflows.RefundWorkflow})
			replayer.RegisterWorkflowWithOptions(workflows.ShareReturns, workflow.RegisterOptions{Name: workflows.ShareReturnsWorkflow})
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
}

// A replay that accepts anything proves nothing: a flow that does something else must be refused.
func TestAReplayRefusesAnotherFlow(t *testing.T) {
	t.Parallel()
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(func(workflow.Context, workflows.PaymentInput) (workflows.PaymentResult, error) {
		return workflows.PaymentResult{}, nil
	}, workflow.RegisterOptions{Name: workflows.PaymentWorkflow})
	require.Error(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, "testdata/payment_credited.json"))
}
