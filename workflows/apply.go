package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// apply books an event. The step may run twice (a signal that comes during the last workflow task drops the task's
// results): its transaction is idempotent, so the second run answers what the first recorded.
func apply(ctx workflow.Context, eventID int64) (Applied, error) {
	summary := fmt.Sprintf("book event %d", eventID)
	var applied Applied
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    localTimeout,
		ScheduleToCloseTimeout: localAttempts * localTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 2, MaximumAttempts: localAttempts,
		},
		Summary: summary,
	})
	err := workflow.ExecuteLocalActivity(local, ApplyEventActivity, eventID).Get(ctx, &applied)
	if err == nil {
		return applied, nil
	}
	var canceled *temporal.CanceledError
	if errors.As(err, &canceled) {
		return Applied{}, err
	}
	remote := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           LedgerQueue,
		StartToCloseTimeout: applyTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
		},
		Summary: summary,
	})
	err = workflow.ExecuteActivity(remote, ApplyEventActivity, eventID).Get(ctx, &applied)
	return applied, err
}
