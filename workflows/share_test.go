package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/paylatch/paylatch/workflows"
)

// shareStory is what a test decides about the sharing that a flow works on, and what it saw.
type shareStory struct {
	state  workflows.ShareProgress
	call   func(n int) error // after which call what; nil: each changes nothing
	apply  func(id int64)
	calls  int
	booked []int64
}

func (s *shareStory) flow() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(workflows.ProfitShare, workflow.RegisterOptions{Name: workflows.ProfitShareWorkflow})
	env.RegisterActivityWithOptions(func(context.Context, int64) (workflows.ShareProgress, error) {
		return s.state, nil
	}, activity.RegisterOptions{Name: workflows.ShareLookActivity})
	env.RegisterActivityWithOptions(func(context.Context, int64) (workflows.ShareProgress, error) {
		s.calls++
		if s.call != nil {
			if err := s.call(s.calls); err != nil {
				return workflows.ShareProgress{}, err
			}
		}
		return s.state, nil
	}, activity.RegisterOptions{Name: workflows.ShareCallActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, id int64) (workflows.Applied, error) {
		s.booked = append(s.booked, id)
		if s.apply != nil {
			s.apply(id)
		}
		return workflows.Applied{EventState: "DONE", Outcome: "SHARED"}, nil
	}, activity.RegisterOptions{Name: workflows.ApplyEventActivity})
	return env
}

func requireShareEnds(t *testing.T, env *testsuite.TestWorkflowEnvironment, state string) {
	t.Helper()
	env.ExecuteWorkflow(workflows.ProfitShareWorkflow, workflows.ShareInput{ShareID: 7})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var p workflows.ShareProgress
	require.NoError(t, env.GetWorkflowResult(&p))
	require.Equal(t, state, p.State)
}

func TestASharingIsAskedForUntilItEnds(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "PENDING", Channel: "wechatpay"}}
	s.call = func(n int) error {
		switch {
		case n < 4:
			s.state.State = "UNKNOWN"
			return errors.New("no answer") // asked again by the flow, not retried by the engine
		case n < 6:
			s.state.State = "PROCESSING"
		default:
			s.state = workflows.ShareProgress{State: "SUCCEEDED", Ended: true, Channel: "wechatpay"}
		}
		return nil
	}
	env := s.flow()
	requireShareEnds(t, env, "SUCCEEDED")
	require.Equal(t, 6, s.calls)
	require.Empty(t, s.booked)
}

func TestResultsAreBookedAsTheyComeAndEndTheSharing(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "PENDING"}} // a channel that cannot be asked
	s.apply = func(id int64) {
		if id == 2 {
			s.state = workflows.ShareProgress{State: "PARTIAL", Ended: true}
		}
	}
	env := s.flow()
	for i, id := range []int64{1, 2, 3} {
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: id})
			if id == 2 { // one that comes with the last one is booked too
				env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 3})
			}
		}, time.Duration(i+1)*time.Hour)
	}
	requireShareEnds(t, env, "PARTIAL")
	require.Zero(t, s.calls)
	require.Equal(t, []int64{1, 2, 3}, s.booked)
}

func TestACallThatHangsHoldsUpNoResult(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "PENDING", Channel: "wechatpay"}}
	env := s.flow()
	// Nobody serves the channel's queue for a while.
	env.OnActivity(workflows.ShareCallActivity, mock.Anything, int64(7)).Return(workflows.ShareProgress{}, errors.New("never mind")).After(48 * time.Hour)
	env.RegisterDelayedCallback(func() {
		s.state = workflows.ShareProgress{State: "SUCCEEDED", Ended: true, Channel: "wechatpay"}
		env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 1})
	}, time.Minute)
	requireShareEnds(t, env, "SUCCEEDED")
	require.Equal(t, []int64{1}, s.booked)
}

func TestARequestToAskIsHeededAtOnce(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "PROCESSING", Channel: "wechatpay"}}
	var askedAt []time.Time
	env := s.flow()
	s.call = func(n int) error {
		askedAt = append(askedAt, env.Now())
		if len(askedAt) > 1 && askedAt[len(askedAt)-1].Sub(askedAt[0]) > time.Hour {
			s.state = workflows.ShareProgress{State: "SUCCEEDED", Ended: true}
		}
		return nil
	}
	start := env.Now()
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.WakeSignal, workflows.Wake{}) }, time.Hour+100*time.Second)
	requireShareEnds(t, env, "SUCCEEDED")
	for i := 2; i < len(askedAt); i++ {
		require.LessOrEqual(t, askedAt[i].Sub(askedAt[i-1]), 5*time.Minute+time.Second, "asked at least that often")
	}
	require.WithinDuration(t, start.Add(time.Hour+100*time.Second), askedAt[len(askedAt)-1], time.Second)
	require.Empty(t, s.booked, "it names no event")
}

func TestCancellingASharingChangesNothing(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "PENDING", Channel: "wechatpay"}}
	s.call = func(n int) error {
		if n == 5 {
			s.state = workflows.ShareProgress{State: "SUCCEEDED", Ended: true}
		}
		return nil
	}
	env := s.flow()
	env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Second)
	requireShareEnds(t, env, "SUCCEEDED")
	require.Equal(t, 5, s.calls)
}

func TestASharingThatHasEndedIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "SUCCEEDED", Ended: true, Channel: "wechatpay"}}
	requireShareEnds(t, s.flow(), "SUCCEEDED")
	require.Zero(t, s.calls)
}

func TestALongSharingGoesOnInANewRun(t *testing.T) {
	t.Parallel()
	s := &shareStory{state: workflows.ShareProgress{State: "PROCESSING", Channel: "wechatpay"}}
	env := s.flow()
	env.SetTestTimeout(time.Minute)
	env.ExecuteWorkflow(workflows.ProfitShareWorkflow, workflows.ShareInput{ShareID: 7})
	require.True(t, workflow.IsContinueAsNewError(env.GetWorkflowError()))
	require.Equal(t, 500, s.calls)
}

func TestReceiversAreAskedUntilEachHasAnAnswer(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(workflows.ShareReturns, workflow.RegisterOptions{Name: workflows.ShareReturnsWorkflow})
	calls := 0
	env.RegisterActivityWithOptions(func(context.Context, int64) (workflows.ReturnsProgress, error) {
		calls++
		if calls == 2 {
			return workflows.ReturnsProgress{}, errors.New("the database is away")
		}
		return workflows.ReturnsProgress{Open: calls < 5}, nil
	}, activity.RegisterOptions{Name: workflows.ShareCollectActivity})
	env.ExecuteWorkflow(workflows.ShareReturnsWorkflow, workflows.ReturnsInput{ShareID: 7, Channel: "wechatpay"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 5, calls)
	var p workflows.ReturnsProgress
	require.NoError(t, env.GetWorkflowResult(&p))
	require.False(t, p.Open)
}
