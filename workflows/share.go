package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// ShareInput names the sharing's row.
type ShareInput struct {
	ShareID int64 `json:"share_id"`
}

// ShareProgress is where a sharing stands.
type ShareProgress struct {
	State string `json:"state"`
	Ended bool   `json:"ended"`
	// Channel names the channel that can be asked; empty where results come by callback alone.
	Channel string `json:"channel,omitempty"`
}

// A sharing is asked about soon at first, and then more and more seldom: most end within seconds, some after hours.
const (
	firstShareAsk = time.Second
	lastShareAsk  = 5 * time.Minute
	// shareRounds bounds one run's history; the next run goes on from the row.
	shareRounds = 500
)

// ProfitShare tells the channel of a sharing, asks what became of it, and books what it hears, by callback or by asking, until
// every leg has ended. Nothing turns it back: a cancellation changes nothing, and run again under its id it goes on from what
// the row says. A call without an answer leaves the sharing unknown, and the next one asks.
func ProfitShare(ctx workflow.Context, in ShareInput) (ShareProgress, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	calls, stopCalling := workflow.WithCancel(ctx)
	defer stopCalling()
	wakes := workflow.GetSignalChannel(ctx, WakeSignal)
	p, err := look(ctx, in)
	if err != nil {
		return p, err
	}
	var call, pause workflow.Future
	wait := firstShareAsk
	for round := 0; ; {
		booked, asked, err := bookWaiting(ctx, wakes)
		if err != nil {
			return p, err
		}
		if booked {
			if p, err = look(ctx, in); err != nil {
				return p, err
			}
		}
		describeShare(ctx, in, p)
		switch {
		case wakes.Len() > 0:
			continue
		case p.Ended:
			return p, workflow.UpsertTypedSearchAttributes(ctx, StateAttribute.ValueSet(p.State))
		case round >= shareRounds && call == nil:
			return p, workflow.NewContinueAsNewError(ctx, ProfitShareWorkflow, in)
		}
		if asked {
			pause, wait = nil, firstShareAsk
		}
		if p.Channel != "" && call == nil && pause == nil {
			call = callShare(calls, in, p.Channel)
		}

		selector := workflow.NewSelector(ctx).AddReceive(wakes, func(workflow.ReceiveChannel, bool) {})
		if call != nil {
			selector.AddFuture(call, func(done workflow.Future) {
				var answered ShareProgress
				if done.Get(ctx, &answered) == nil {
					p = answered
				} // else it is unknown, and asked for
				call, pause = nil, workflow.NewTimer(ctx, wait)
				wait = min(2*wait, lastShareAsk)
				round++
			})
		} else if pause != nil {
			selector.AddFuture(pause, func(workflow.Future) { pause = nil })
		}
		selector.Select(ctx)
	}
}

// bookWaiting books the events whose signals are there; asked says that one of the signals wants the channel asked now.
func bookWaiting(ctx workflow.Context, wakes workflow.ReceiveChannel) (booked, asked bool, err error) {
	var wake Wake
	for wakes.ReceiveAsync(&wake) {
		if wake.EventID == 0 {
			asked = true
			continue
		}
		if _, err := apply(ctx, wake.EventID); err != nil {
			return booked, asked, err
		}
		booked = true
	}
	return booked, asked, nil
}

func look(ctx workflow.Context, in ShareInput) (ShareProgress, error) {
	return step[ShareProgress](ctx, "look at the sharing", ShareLookActivity, in.ShareID)
}

// callShare is tried once: without an answer the flow asks again when it is time, and books what comes meanwhile.
func callShare(ctx workflow.Context, in ShareInput, channel string) workflow.Future {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           ChannelQueue(channel),
		StartToCloseTimeout: channelTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             "tell or ask the channel",
	}), ShareCallActivity, in.ShareID)
}

func describeShare(ctx workflow.Context, in ShareInput, p ShareProgress) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**Sharing** %d: **%s**", in.ShareID, p.State))
}
