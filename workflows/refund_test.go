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

// refundStory is the flow of a refund with steps that the test decides.
type refundStory struct {
	*testsuite.TestWorkflowEnvironment
	begin time.Time
	// asked is when the channel was called or asked, after the beginning.
	asked []time.Duration
	next  []int
	// steps are all steps but those, in their order.
	steps []string
	// state is the row's.
	state string
	asks  bool
	// answer is the channel's, by how often it was asked before; booked is what an event makes of the row.
	answer func(n int) (workflows.RefundProgress, error)
	booked map[int64]string
}

func newRefund(answer func(n int) (workflows.RefundProgress, error)) *refundStory {
	var suite testsuite.WorkflowTestSuite
	s := &refundStory{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), state: "PENDING", asks: true, answer: answer, booked: map[int64]string{}}
	s.begin = s.Now()
	s.RegisterWorkflowWithOptions(workflows.Refund, workflow.RegisterOptions{Name: workflows.RefundWorkflow})
	s.RegisterWorkflowWithOptions(workflows.Event, workflow.RegisterOptions{Name: workflows.EventWorkflow})
	named := func(name string) activity.RegisterOptions { return activity.RegisterOptions{Name: name} }
	s.RegisterActivityWithOptions(func(context.Context, int64) (workflows.RefundProgress, error) {
		s.steps = append(s.steps, "look")
		return workflows.RefundProgress{State: s.state, Asks: s.asks}, nil
	}, named(workflows.RefundLookActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, a workflows.RefundAdvance) (workflows.RefundProgress, error) {
		s.asked = append(s.asked, s.Now().Sub(s.begin))
		s.next = append(s.next, a.Next)
		p, err := s.answer(len(s.asked) - 1)
		p.Asks = true
		return p, err
	}, named(workflows.RefundAdvanceActivity))
	s.RegisterActivityWithOptions(func(context.Context, int64) (workflows.RefundProgress, error) {
		s.steps = append(s.steps, "unknown")
		return workflows.RefundProgress{State: "UNKNOWN", Asks: true}, nil
	}, named(workflows.RefundUnknownActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, id int64) (workflows.Applied, error) {
		s.steps = append(s.steps, "book")
		if s.booked[id] != "" {
			s.state = s.booked[id]
		}
		return workflows.Applied{EventState: "DONE", Outcome: "REFUNDED", Matter: s.state}, nil
	}, named(workflows.ApplyEventActivity))
	return s
}

func (s *refundStory) run(t *testing.T) string {
	t.Helper()
	s.ExecuteWorkflow(workflows.RefundWorkflow, workflows.RefundInput{RefundID: 7, Channel: "wechatpay"})
	require.True(t, s.IsWorkflowCompleted())
	require.NoError(t, s.GetWorkflowError())
	var result workflows.RefundResult
	require.NoError(t, s.GetWorkflowResult(&result))
	return result.State
}

func pending(int) (workflows.RefundProgress, error) {
	return workflows.RefundProgress{State: "PENDING"}, nil
}

func TestARefundIsAskedForAtThePaceOfWhatKeepsItOpen(t *testing.T) {
	t.Parallel()
	const polls = 45
	s := newRefund(func(n int) (workflows.RefundProgress, error) {
		if n == polls {
			return workflows.RefundProgress{State: "PENDING", Events: []int64{5}}, nil
		}
		return pending(n)
	})
	s.booked[5] = "SUCCEEDED"
	require.Equal(t, "SUCCEEDED", s.run(t))
	want := []time.Duration{0}
	at := time.Duration(0)
	for _, pause := range []time.Duration{
		3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour,
	} {
		at += pause
		want = append(want, at)
	}
	for len(want) < 39 {
		at += 6 * time.Hour
		want = append(want, at)
	}
	for len(want) < polls+1 {
		at += 24 * time.Hour
		want = append(want, at)
	}
	require.Equal(t, want, s.asked)
	require.Equal(t, []int{3, 10, 30}, s.next[:3], "each step knows when the next one comes")
}

func TestACallThatDoesNotComeBackIsUnknownAndIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newRefund(func(n int) (workflows.RefundProgress, error) {
		if n == 0 {
			return workflows.RefundProgress{}, errors.New("the worker is gone")
		}
		return workflows.RefundProgress{State: "UNKNOWN", Events: []int64{5}}, nil
	})
	s.booked[5] = "SUCCEEDED"
	require.Equal(t, "SUCCEEDED", s.run(t))
	require.Equal(t, []time.Duration{0, 3 * time.Second}, s.asked, "one call, and the question after it: no retry in between")
	require.Equal(t, []string{"look", "unknown", "book"}, s.steps)
}

func TestANoticeEndsTheFlowWhileItWaits(t *testing.T) {
	t.Parallel()
	s := newRefund(pending)
	s.booked[5] = "FAILED"
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 4}) }, time.Second)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 5}) }, 20*time.Second)
	require.Equal(t, "FAILED", s.run(t))
	require.Equal(t, []time.Duration{0, 3 * time.Second, 13 * time.Second}, s.asked, "an event that ends nothing does not move the plan")
	require.Equal(t, []string{"look", "book", "book"}, s.steps)
}

func TestANoticeEndsTheFlowWhileACallIsOnItsWay(t *testing.T) {
	t.Parallel()
	s := newRefund(pending)
	s.booked[5] = "SUCCEEDED"
	s.OnActivity(workflows.RefundAdvanceActivity, mock.Anything, mock.Anything).
		Return(workflows.RefundProgress{State: "PENDING", Asks: true}, nil).After(time.Hour) // nobody serves the channel's queue
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 5}) }, time.Minute)
	require.Equal(t, "SUCCEEDED", s.run(t))
	require.Less(t, s.Now().Sub(s.begin), time.Hour)
}

func TestAnOperatorsWishAsksAtOnceAndThePlanBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newRefund(func(n int) (workflows.RefundProgress, error) {
		if n == 6 {
			return workflows.RefundProgress{State: "PENDING", Events: []int64{5}}, nil
		}
		return pending(n)
	})
	s.booked[5] = "SUCCEEDED"
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{}) }, 20*time.Second)
	require.Equal(t, "SUCCEEDED", s.run(t))
	require.Equal(t, []time.Duration{0, 3 * time.Second, 13 * time.Second, 20 * time.Second, 23 * time.Second, 33 * time.Second, 63 * time.Second}, s.asked)
}

func TestARefundThatHasEndedOrCannotBeAskedForCallsNobody(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(s *refundStory) string{
		"it has ended":      func(s *refundStory) string { s.state = "SUCCEEDED"; return "SUCCEEDED" },
		"it waits for word": func(s *refundStory) string { s.asks = false; return "PENDING" },
		"word has come": func(s *refundStory) string {
			s.asks = false
			s.booked[5] = "SUCCEEDED"
			s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 5}) }, 0)
			return "SUCCEEDED"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRefund(pending)
			want := set(s)
			require.Equal(t, want, s.run(t))
			require.Empty(t, s.asked)
		})
	}
}

func TestALongRefundGoesOnInANewRun(t *testing.T) {
	t.Parallel()
	s := newRefund(pending)
	s.ExecuteWorkflow(workflows.RefundWorkflow, workflows.RefundInput{RefundID: 7, Channel: "stripe"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, s.GetWorkflowError(), &again)
	polls := len(s.asked)

	next := newRefund(pending)
	next.booked[5] = "SUCCEEDED"
	next.RegisterDelayedCallback(func() { next.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 5}) }, 25*time.Hour)
	next.ExecuteWorkflow(workflows.RefundWorkflow, workflows.RefundInput{RefundID: 7, Channel: "stripe", Polls: polls})
	require.NoError(t, next.GetWorkflowError())
	require.Equal(t, []time.Duration{24 * time.Hour}, next.asked, "it waits first, and keeps its pace")
}

func TestAnEventThatNeedsTheChannelsWordIsAskedAboutUntilThereIsOne(t *testing.T) {
	t.Parallel()
	s := newRefund(pending)
	asked := false
	var steps []string
	attempts := 0
	s.RegisterActivityWithOptions(func(context.Context, int64) ([]int64, error) {
		if attempts++; attempts < 4 {
			return nil, errors.New("the channel is away")
		}
		asked = true
		return []int64{9}, nil
	}, activity.RegisterOptions{Name: workflows.AskAboutActivity})
	s.OnActivity(workflows.ApplyEventActivity, mock.Anything, mock.Anything).Return(func(_ context.Context, id int64) (workflows.Applied, error) {
		if id == 9 {
			steps = append(steps, "book the answer")
			return workflows.Applied{EventState: "DONE", Outcome: "REFUND_REVERSED"}, nil
		}
		if !asked {
			steps = append(steps, "cannot say")
			return workflows.Applied{EventState: "RECEIVED", Ask: "stripe"}, nil
		}
		steps = append(steps, "book")
		return workflows.Applied{EventState: "IGNORED", Outcome: "STALE"}, nil
	})
	s.ExecuteWorkflow(workflows.EventWorkflow, workflows.EventInput{EventID: 1})
	require.NoError(t, s.GetWorkflowError())
	require.Equal(t, []string{"cannot say", "book the answer", "book"}, steps)
	var applied workflows.Applied
	require.NoError(t, s.GetWorkflowResult(&applied))
	require.Equal(t, "STALE", applied.Outcome)
}

// A channel that does not answer about a hint keeps up neither a notice that decides nor the end of the flow.
func TestANoticeThatDecidesIsBookedWhileTheChannelDoesNotAnswerAboutAHint(t *testing.T) {
	t.Parallel()
	for name, callsAnswer := range map[string]bool{"while it waits": true, "while it calls": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRefund(func(n int) (workflows.RefundProgress, error) {
				if !callsAnswer && n > 0 {
					return workflows.RefundProgress{}, errors.New("the API key was revoked")
				}
				return workflows.RefundProgress{State: "PENDING"}, nil
			})
			s.RegisterActivityWithOptions(func(context.Context, int64) ([]int64, error) {
				return nil, errors.New("the API key was revoked")
			}, activity.RegisterOptions{Name: workflows.AskAboutActivity})
			succeeded := false
			var steps []string
			s.OnActivity(workflows.ApplyEventActivity, mock.Anything, mock.Anything).Return(func(_ context.Context, id int64) (workflows.Applied, error) {
				switch {
				case id == 2:
					succeeded = true
					steps = append(steps, "success")
					return workflows.Applied{EventState: "DONE", Outcome: "REFUNDED", Matter: "SUCCEEDED"}, nil
				case succeeded:
					steps = append(steps, "hint settled")
					return workflows.Applied{EventState: "IGNORED", Outcome: "STALE", Matter: "SUCCEEDED"}, nil
				}
				return workflows.Applied{EventState: "RECEIVED", Ask: "stripe", Matter: "PENDING"}, nil
			})
			s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 1}) }, time.Second)
			s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.WakeSignal, workflows.Wake{EventID: 2}) }, 20*time.Second)
			s.ExecuteWorkflow(workflows.RefundWorkflow, workflows.RefundInput{RefundID: 1, Channel: "stripe"})
			require.True(t, s.IsWorkflowCompleted())
			require.NoError(t, s.GetWorkflowError())
			require.Equal(t, []string{"success", "hint settled"}, steps)
			require.Less(t, s.Now().Sub(s.begin), time.Minute, "it is over when the notice has come")
		})
	}
}
