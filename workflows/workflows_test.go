package workflows_test

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/paylatch/paylatch/workflows"
)

// newFlow gives the SDK's test environment with the flows, and the apply step as the test wants it.
func newFlow(apply func(ctx context.Context, id int64) (workflows.Applied, error)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(workflows.Payment, workflow.RegisterOptions{Name: workflows.PaymentWorkflow})
	env.RegisterWorkflowWithOptions(workflows.Event, workflow.RegisterOptions{Name: workflows.EventWorkflow})
	env.RegisterActivityWithOptions(apply, activity.RegisterOptions{Name: workflows.ApplyEventActivity})
	return env
}

var order = workflows.PaymentInput{Tenant: "t", OutTradeNo: "o"}

func TestAFlowBooksEverySignalThatCameBeforeItEnds(t *testing.T) {
	t.Parallel()
	var booked []int64
	env := newFlow(func(_ context.Context, id int64) (workflows.Applied, error) {
		booked = append(booked, id)
		return workflows.Applied{EventState: "DONE", Outcome: "CREDITED", PaymentState: "PAID"}, nil
	})
	env.RegisterDelayedCallback(func() {
		for id := int64(1); id <= 3; id++ {
			env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: id})
		}
	}, 0)
	env.ExecuteWorkflow(workflows.PaymentWorkflow, order)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []int64{1, 2, 3}, booked)
	var result workflows.PaymentResult
	require.NoError(t, env.GetWorkflowResult(&result))
	require.Equal(t, workflows.PaymentResult{State: "PAID", Events: 3}, result)
}

func TestAFlowEndsThoughItsOrderIsStillPending(t *testing.T) {
	t.Parallel()
	env := newFlow(func(context.Context, int64) (workflows.Applied, error) {
		return workflows.Applied{EventState: "PARKED", Outcome: "UNBOOKABLE", PaymentState: "PENDING"}, nil
	})
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 1}) }, 0)
	env.ExecuteWorkflow(workflows.PaymentWorkflow, order)
	require.NoError(t, env.GetWorkflowError())
	var result workflows.PaymentResult
	require.NoError(t, env.GetWorkflowResult(&result))
	require.Equal(t, workflows.PaymentResult{State: "PENDING", Events: 1}, result, "nobody waits for an event that may never come")
}

func TestAStepThatFailsBesideTheTaskGoesOnForAsLongAsItTakes(t *testing.T) {
	t.Parallel()
	calls := 0
	env := newFlow(func(context.Context, int64) (workflows.Applied, error) {
		if calls++; calls <= 8 {
			return workflows.Applied{}, errors.New("the database is away")
		}
		return workflows.Applied{EventState: "DONE", Outcome: "CREDITED", PaymentState: "PAID"}, nil
	})
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 1}) }, 0)
	env.ExecuteWorkflow(workflows.PaymentWorkflow, order)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 9, calls)
}

// newTransfer gives a flow whose steps in the database always succeed, and a participant that answers as told.
func newTransfer(states map[string]string, answer func(c workflows.ParticipantCall) error) (env *testsuite.TestWorkflowEnvironment, calls *[]string) {
	var suite testsuite.WorkflowTestSuite
	env = suite.NewTestWorkflowEnvironment()
	calls = &[]string{}
	env.RegisterWorkflowWithOptions(workflows.Transfer, workflow.RegisterOptions{Name: workflows.TransferWorkflow})
	env.RegisterActivityWithOptions(func(_ context.Context, _ int64) (workflows.Progress, error) {
		*calls = append(*calls, "try")
		return workflows.Progress{State: states["state"], Failure: states["failure"], External: []int{2}}, nil
	}, activity.RegisterOptions{Name: workflows.TransferTryActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, d workflows.TransferDecision) (workflows.Progress, error) {
		*calls = append(*calls, "decide "+d.Failure)
		state := "CONFIRMING"
		if d.Failure != "" {
			state = "CANCELLING"
		}
		states["state"] = state
		return workflows.Progress{State: state, Failure: d.Failure, External: []int{2}}, nil
	}, activity.RegisterOptions{Name: workflows.TransferDecideActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, e workflows.TransferEnd) (workflows.Progress, error) {
		*calls = append(*calls, "end")
		state := states["state"]
		if e.Last {
			state = map[string]string{"CONFIRMING": "CONFIRMED", "CANCELLING": "CANCELLED"}[state]
		}
		return workflows.Progress{State: state, External: []int{2}}, nil
	}, activity.RegisterOptions{Name: workflows.TransferEndActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, c workflows.ParticipantCall) error {
		*calls = append(*calls, "participant "+c.Phase)
		return answer(c)
	}, activity.RegisterOptions{Name: workflows.ParticipantActivity})
	return env, calls
}

func TestATransferObeysTheRowAndNotItsTries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state, failure string
		answer         func(c workflows.ParticipantCall) error
		want           []string
		end            string
	}{
		"all tried": {"TRYING", "", func(workflows.ParticipantCall) error { return nil },
			[]string{"try", "participant try", "decide ", "end", "participant confirm", "end"}, "CONFIRMED"},
		"refused here": {"TRYING", "insufficient_funds", func(workflows.ParticipantCall) error { return nil },
			[]string{"try", "decide insufficient_funds", "end", "participant cancel", "end"}, "CANCELLED"},
		"refused there": {"TRYING", "", func(c workflows.ParticipantCall) error {
			if c.Phase == "try" {
				return temporal.NewNonRetryableApplicationError("no", workflows.RefusedByParticipant, nil)
			}
			return nil
		}, []string{"try", "participant try", "decide participant_refused", "end", "participant cancel", "end"}, "CANCELLED"},
		"run again after it was decided to confirm": {"CONFIRMING", "", func(workflows.ParticipantCall) error { return nil },
			[]string{"try", "end", "participant confirm", "end"}, "CONFIRMED"},
		"run again after it was confirmed": {"CONFIRMED", "", func(workflows.ParticipantCall) error { return nil }, []string{"try"}, "CONFIRMED"},
		"run again after it was cancelled": {"CANCELLED", "", func(workflows.ParticipantCall) error { return nil }, []string{"try"}, "CANCELLED"},
		"run again after it was decided to cancel": {"CANCELLING", "", func(workflows.ParticipantCall) error { return nil },
			[]string{"try", "end", "participant cancel", "end"}, "CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, calls := newTransfer(map[string]string{"state": c.state, "failure": c.failure}, c.answer)
			env.ExecuteWorkflow(workflows.TransferWorkflow, workflows.TransferInput{TransferID: 1})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, c.want, *calls)
			var p workflows.Progress
			require.NoError(t, env.GetWorkflowResult(&p))
			require.Equal(t, c.end, p.State)
		})
	}
}

// Cancelled before its first task, it is cancelled; else the one step that is left decides.
func TestATransferThatWasTriedAsItWasMadeBeginsWithTheDecision(t *testing.T) {
	t.Parallel()
	for cancelled, want := range map[bool]string{false: "settle ", true: "settle canceled"} {
		env, calls := newTransfer(map[string]string{}, nil)
		env.RegisterActivityWithOptions(func(_ context.Context, d workflows.TransferDecision) (workflows.Progress, error) {
			*calls = append(*calls, "settle "+d.Failure)
			return workflows.Progress{State: "CONFIRMED"}, nil
		}, activity.RegisterOptions{Name: workflows.TransferSettleActivity})
		if cancelled {
			env.RegisterDelayedCallback(env.CancelWorkflow, 0)
		}
		env.ExecuteWorkflow(workflows.TransferWorkflow, workflows.TransferInput{TransferID: 1, Tried: true})
		require.NoError(t, env.GetWorkflowError())
		require.Equal(t, []string{want}, *calls)
	}
}

func TestAFailingConfirmIsRetriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	attempts := 0
	env, _ := newTransfer(map[string]string{"state": "TRYING"}, func(c workflows.ParticipantCall) error {
		if c.Phase == "confirm" {
			if attempts++; attempts < 8 {
				return errors.New("not now")
			}
		}
		return nil
	})
	env.ExecuteWorkflow(workflows.TransferWorkflow, workflows.TransferInput{TransferID: 1})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 8, attempts)
}

func TestIDsAreBusinessKeysAndFitTheEnginesColumns(t *testing.T) {
	t.Parallel()
	require.Equal(t, "pay/t/o", workflows.PaymentID("t", "o"))
	require.Equal(t, "event/7/standard:tx:PAY_SUCCESS", workflows.EventID(7, "standard:tx:PAY_SUCCESS"))
	require.Equal(t, "pay/"+strings.Repeat("t", 64)+"/"+strings.Repeat("o", 64), workflows.PaymentID(strings.Repeat("t", 64), strings.Repeat("o", 64)))

	long := strings.Repeat("支", 128)
	id := workflows.EventID(7, long+"a")
	require.LessOrEqual(t, len(id), 200)
	require.True(t, strings.HasPrefix(id, "event/"), id)
	require.Equal(t, id, workflows.EventID(7, long+"a"), "the same key, the same id")
	require.NotEqual(t, id, workflows.EventID(7, long+"b"))
	require.NotEqual(t, id, workflows.EventID(8, long+"a"))
}

func TestFlowsImportNoDatabaseNetworkClockOrRandomSource(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range parsed.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			require.NotContains(t, []string{"os", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "database/sql"}, path, f.Name())
			require.NotContains(t, path, "paylatch/internal", f.Name())
			require.NotContains(t, path, "pgx", f.Name())
		}
	}
}
