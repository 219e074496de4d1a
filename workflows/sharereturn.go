package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// ReturnsInput names a sharing whose receivers are asked for what they owe.
type ReturnsInput struct {
	ShareID int64  `json:"share_id"`
	Channel string `json:"channel"`
}

// ReturnsProgress says whether some have not answered.
type ReturnsProgress struct {
	Open bool `json:"open"`
}

// ShareReturns asks the channel of a sharing for what its receivers owe until each has an answer. It works from the rows: run
// again, at once or later, it asks for what is still open.
func ShareReturns(ctx workflow.Context, in ReturnsInput) (ReturnsProgress, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	calls := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           ChannelQueue(in.Channel),
		StartToCloseTimeout: channelTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: lastShareAsk},
		Summary:             "ask for what is owed",
	})
	wait := firstShareAsk
	for range shareRounds {
		var p ReturnsProgress
		if err := workflow.ExecuteActivity(calls, ShareCollectActivity, in.ShareID).Get(ctx, &p); err != nil || !p.Open {
			return p, err
		}
		if err := workflow.Sleep(ctx, wait); err != nil {
			return p, err
		}
		wait = min(2*wait, lastShareAsk)
	}
	return ReturnsProgress{Open: true}, workflow.NewContinueAsNewError(ctx, ShareReturnsWorkflow, in)
}
