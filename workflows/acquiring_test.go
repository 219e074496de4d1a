package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/paylatch/paylatch/workflows"
)

var errUnknown = errors.New("the channel did not answer")

// asking gives an environment whose channel fails a number of times and then answers.
func asking(t *testing.T, name string, failures int, answer string, last error) (*testsuite.TestWorkflowEnvironment, *int) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	calls := 0
	env.RegisterActivityWithOptions(func(_ context.Context, paymentID int64) (string, error) {
		require.Equal(t, int64(7), paymentID)
		if calls++; calls <= failures {
			return "", errUnknown
		}
		return answer, last
	}, activity.RegisterOptions{Name: name})
	return env, &calls
}

func TestAnAnnouncementOfUnknownResultIsTriedAgain(t *testing.T) {
	t.Parallel()
	env, calls := asking(t, workflows.PrepayActivity, 3, "READY", nil)
	env.ExecuteWorkflow(workflows.Prepay, workflows.OrderInput{PaymentID: 7, Channel: "wechatpay"})
	require.NoError(t, env.GetWorkflowError())
	var result workflows.OrderResult
	require.NoError(t, env.GetWorkflowResult(&result))
	require.Equal(t, "READY", result.State)
	require.Equal(t, 4, *calls)
}

func TestAnAnnouncementEndsWhenItTakesTooLong(t *testing.T) {
	t.Parallel()
	env, calls := asking(t, workflows.PrepayActivity, 1<<30, "", nil)
	begin := env.Now()
	env.ExecuteWorkflow(workflows.Prepay, workflows.OrderInput{PaymentID: 7, Channel: "wechatpay"})
	require.Error(t, env.GetWorkflowError(), "the row is still PENDING: the next request starts it again")
	require.Greater(t, *calls, 5)
	require.LessOrEqual(t, env.Now().Sub(begin), 3*time.Minute)
}

func TestAnInquiryGoesOnUntilTheChannelAnswers(t *testing.T) {
	t.Parallel()
	env, calls := asking(t, workflows.InquireActivity, 8, "CLOSED", nil)
	begin := env.Now()
	env.SetTestTimeout(time.Minute)
	env.ExecuteWorkflow(workflows.Inquiry, workflows.OrderInput{PaymentID: 7, Channel: "alipay"})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, 9, *calls)
	require.Greater(t, env.Now().Sub(begin), 4*time.Minute, "longer than any announcement")
}

func TestWhatCannotBeAskedEndsTheFlow(t *testing.T) {
	t.Parallel()
	env, calls := asking(t, workflows.InquireActivity, 0, "", temporal.NewNonRetryableApplicationError("no such payment", "NothingToAsk", nil))
	env.ExecuteWorkflow(workflows.Inquiry, workflows.OrderInput{PaymentID: 7, Channel: "alipay"})
	require.Error(t, env.GetWorkflowError())
	require.Equal(t, 1, *calls)
}
