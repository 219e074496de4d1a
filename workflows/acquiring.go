package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// OrderInput names an order and the channel that is asked about it.
type OrderInput struct {
	PaymentID int64  `json:"payment_id"`
	Channel   string `json:"channel"`
}

// OrderResult is where the flow left it: the prepay state, or the channel's word.
type OrderResult struct {
	State string `json:"state"`
}

const (
	channelTimeout = 20 * time.Second // one call, with the question that may come before it
	// prepayFor is how long an announcement is tried: a payer does not wait longer. The request that comes again goes on.
	prepayFor = 2 * time.Minute
)

// Prepay announces an order to its channel. An unknown result is asked for and tried again under the same number; when that
// takes too long the flow ends, and the merchant's next request starts it again.
func Prepay(ctx workflow.Context, in OrderInput) (result OrderResult, err error) {
	call := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              ChannelQueue(in.Channel),
		StartToCloseTimeout:    channelTimeout,
		ScheduleToCloseTimeout: prepayFor,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
		Summary:                "announce the order",
	})
	err = workflow.ExecuteActivity(call, PrepayActivity, in.PaymentID).Get(ctx, &result.State)
	return result, err
}

// Inquiry asks a channel what became of an order, and closes it there and here where that is due. It goes on for as long as
// the channel gives no answer.
func Inquiry(ctx workflow.Context, in OrderInput) (result OrderResult, err error) {
	call := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           ChannelQueue(in.Channel),
		StartToCloseTimeout: channelTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute},
		Summary:             "ask about the order",
	})
	err = workflow.ExecuteActivity(call, InquireActivity, in.PaymentID).Get(ctx, &result.State)
	return result, err
}
