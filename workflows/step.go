package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// apply books an event.
func apply(ctx workflow.Context, eventID int64) (Applied, error) {
	return step[Applied](ctx, fmt.Sprintf("book event %d", eventID), ApplyEventActivity, eventID)
}

// book books an event that its channel may have to be asked about first, and whatever the channel answers. It goes on for as
// long as the channel gives no answer: the event stays where it is, and is driven again should the flow be lost.
func book(ctx workflow.Context, eventID int64) (Applied, error) {
	applied, err := apply(ctx, eventID)
	if err != nil || applied.Ask == "" {
		return applied, err
	}
	return bookAsked(ctx, applied, eventID, apply)
}

// bookAsked asks about an event and books it with apply, until it is.
func bookAsked(ctx workflow.Context, applied Applied, eventID int64, apply func(workflow.Context, int64) (Applied, error)) (Applied, error) {
	for applied.Ask != "" {
		call := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:           ChannelQueue(applied.Ask),
			StartToCloseTimeout: channelTimeout,
			HeartbeatTimeout:    lostAfter,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute},
			Summary:             fmt.Sprintf("ask about event %d", eventID),
		})
		var answers []int64
		if err := workflow.ExecuteActivity(call, AskAboutActivity, eventID).Get(ctx, &answers); err != nil {
			return applied, err
		}
		for _, id := range answers {
			if _, err := apply(ctx, id); err != nil {
				return applied, err
			}
		}
		var err error
		if applied, err = apply(ctx, eventID); err != nil {
			return applied, err
		}
	}
	return applied, nil
}

// step runs a short database step. It may run twice (a signal that comes during the last workflow task drops the task's
// results): its transaction is idempotent, so the second run answers what the first recorded.
func step[Result any](ctx workflow.Context, summary, activity string, input any) (result Result, err error) {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    localTimeout,
		ScheduleToCloseTimeout: localAttempts * localTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 2, MaximumAttempts: localAttempts,
		},
		Summary: summary,
	})
	err = workflow.ExecuteLocalActivity(local, activity, input).Get(ctx, &result)
	if err == nil || temporal.IsCanceledError(err) {
		return result, err
	}
	remote := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           LedgerQueue,
		StartToCloseTimeout: stepTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
		},
		Summary: summary,
	})
	err = workflow.ExecuteActivity(remote, activity, input).Get(ctx, &result)
	return result, err
}
