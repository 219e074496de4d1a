package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// RefundInput names a refund's row and its channel.
type RefundInput struct {
	RefundID int64  `json:"refund_id"`
	Channel  string `json:"channel"`
	// Polls is how often an earlier run of the same flow has asked; it goes on from there, and waits first.
	Polls int `json:"polls,omitempty"`
}

// RefundResult is where the flow left the refund.
type RefundResult struct {
	State string `json:"state"`
}

// RefundProgress is where a step found or left a refund.
type RefundProgress struct {
	State string `json:"state"`
	// Asks tells whether its channel can be asked; if not, only a callback ends it, and no flow waits for that.
	Asks bool `json:"asks"`
	// Events are reports out of the channel's answer that wait to be booked.
	Events []int64 `json:"events,omitempty"`
}

func (p RefundProgress) ended() bool { return refundEnded(p.State) }

func refundEnded(state string) bool { return state == "SUCCEEDED" || state == "FAILED" }

// RefundAdvance asks for the one thing that is due: to call the channel, or to ask it.
type RefundAdvance struct {
	RefundID int64 `json:"refund_id"`
	// Next is when the flow comes again, in seconds.
	Next int `json:"next"`
}

const (
	// refundTimeout bounds one step at the channel: a question, a call, and one more question.
	refundTimeout = 30 * time.Second
	// lostAfter is when a worker that makes such a step is taken for dead.
	lostAfter = 10 * time.Second
)

// refundPlan is when the channel is asked again: at once while somebody may be waiting, then at the pace of what usually keeps
// a refund open, a bank's day. Most channels tell by themselves; this is for the notice that never came.
var refundPlan = []time.Duration{
	3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour,
}

const (
	refundEvery     = 6 * time.Hour // after the plan, for a week
	refundEveryDay  = 24 * time.Hour
	refundWeekPolls = 38 // the plan, and every six hours for a week
	refundRunPolls  = 400
)

// RefundPause is how long the flow waits after it has asked so often.
func RefundPause(polls int) time.Duration {
	switch {
	case polls < len(refundPlan):
		return refundPlan[polls]
	case polls < refundWeekPolls:
		return refundEvery
	default:
		return refundEveryDay
	}
}

// Refund carries a refund to its end: it has the channel called, books what the channel reports, and asks until it knows.
// A call whose outcome is unknown is never made again on suspicion: the next step asks first. The flow works from its row:
// run again, it goes on from there. A signal without an event makes it ask at once.
func Refund(ctx workflow.Context, in RefundInput) (RefundResult, error) {
	f := &refundFlow{
		in: in, wakes: workflow.GetSignalChannel(ctx, WakeSignal), polls: in.Polls, due: in.Polls == 0,
		asked: workflow.NewBufferedChannel(ctx, 1),
	}
	at, err := step[RefundProgress](ctx, "look at the refund", RefundLookActivity, in.RefundID)
	if err != nil {
		return RefundResult{}, err
	}
	f.at = at
	for {
		if err := f.heed(ctx); err != nil {
			return RefundResult{f.at.State}, err
		}
		if f.at.ended() {
			// What hints say is known by now: they are settled without an answer.
			for _, stop := range f.stop {
				stop()
			}
			if err := workflow.Await(ctx, func() bool { return f.questions == 0 || f.wakes.Len() > 0 }); err != nil {
				return RefundResult{f.at.State}, err
			}
			if f.failed != nil {
				return RefundResult{f.at.State}, f.failed
			}
			if f.wakes.Len() > 0 {
				continue
			}
			break
		}
		if !f.at.Asks {
			break
		}
		if f.due {
			err = f.advance(ctx)
		} else {
			err = f.wait(ctx)
		}
		if err != nil {
			return RefundResult{f.at.State}, err
		}
	}
	return RefundResult{f.at.State}, workflow.UpsertTypedSearchAttributes(ctx, StateAttribute.ValueSet(f.at.State))
}

// refundFlow is what a run knows.
type refundFlow struct {
	in    RefundInput
	wakes workflow.ReceiveChannel
	at    RefundProgress
	polls int
	// due says that the channel is to be called or asked now.
	due bool
	// Events that the channel is asked about, in the background: how many, what stops the questions, the fault of one, and a
	// channel that has a value whenever one has moved something.
	questions int
	stop      []workflow.CancelFunc
	failed    error
	asked     workflow.Channel
}

// heed books every event that has come. The last thing before the flow ends, it leaves no signal behind.
func (f *refundFlow) heed(ctx workflow.Context) error {
	var wake Wake
	for f.wakes.ReceiveAsync(&wake) {
		if err := f.take(ctx, wake); err != nil {
			return err
		}
		wake = Wake{}
	}
	return nil
}

func (f *refundFlow) take(ctx workflow.Context, wake Wake) error {
	if wake.EventID == 0 { // somebody wants to know
		f.due, f.polls = true, 0
		return nil
	}
	return f.book(ctx, wake.EventID)
}

// book books an event. One that the channel must be asked about first is booked in the background: a channel that does not answer,
// or may not be asked, must not keep up a notice that decides.
func (f *refundFlow) book(ctx workflow.Context, eventID int64) error {
	applied, err := apply(ctx, eventID)
	if err != nil {
		return err
	}
	if applied.Ask != "" {
		if workflow.GetVersion(ctx, askedAside, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
			if applied, err = bookAsked(ctx, applied, eventID, apply); err != nil {
				return err
			}
		} else {
			f.questions++
			workflow.Go(ctx, func(ctx workflow.Context) { f.ask(ctx, applied, eventID) })
			return nil
		}
	}
	f.noted(ctx, eventID, applied)
	return nil
}

// askedAside names the change by which events are asked about in the background; it stands in running histories.
const askedAside = "refund-asks-aside"

// ask asks about an event until it can be booked. Once the refund has ended by another word, it needs no answer.
func (f *refundFlow) ask(ctx workflow.Context, applied Applied, eventID int64) {
	defer func() {
		f.questions--
		f.asked.SendAsync(true)
	}()
	book := func(_ workflow.Context, id int64) (Applied, error) {
		a, err := apply(ctx, id)
		if err == nil && a.Ask == "" {
			f.noted(ctx, id, a)
			f.asked.SendAsync(true)
		}
		return a, err
	}
	asking, stop := workflow.WithCancel(ctx)
	defer stop()
	if f.at.ended() {
		stop()
	}
	f.stop = append(f.stop, stop)
	_, err := bookAsked(asking, applied, eventID, book)
	if temporal.IsCanceledError(err) && ctx.Err() == nil {
		if applied, err = book(ctx, eventID); err == nil {
			_, err = bookAsked(ctx, applied, eventID, book) // it contradicts the end
		}
	}
	if err != nil {
		f.failed = err
	}
}

// noted notes what an event has made of the refund.
func (f *refundFlow) noted(ctx workflow.Context, eventID int64, applied Applied) {
	if applied.Matter != "" {
		f.at.State = applied.Matter
	}
	f.describe(ctx, fmt.Sprintf("event %d: %s", eventID, applied.Outcome))
}

// heedQuestions ends a wait when an event that was asked about has moved something.
func (f *refundFlow) heedQuestions(selector workflow.Selector, failed *error) {
	selector.AddReceive(f.asked, func(c workflow.ReceiveChannel, _ bool) {
		var moved bool
		c.ReceiveAsync(&moved)
		*failed = f.failed
	})
}

// advance has the channel called or asked. An event that comes meanwhile is booked meanwhile; one that ends the refund makes
// the answer needless.
func (f *refundFlow) advance(ctx workflow.Context) error {
	f.due = false
	pause := RefundPause(f.polls)
	callCtx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           ChannelQueue(f.in.Channel),
		StartToCloseTimeout: refundTimeout,
		HeartbeatTimeout:    lostAfter,
		// One attempt: what became of a call that did not come back is asked for.
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:     "call the channel, or ask it",
	}))
	defer cancel()
	call := workflow.ExecuteActivity(callCtx, RefundAdvanceActivity, RefundAdvance{f.in.RefundID, int(pause / time.Second)})
	var failed error
	answered := false
	for !answered && !f.at.ended() {
		selector := workflow.NewSelector(ctx)
		selector.AddFuture(call, func(workflow.Future) { answered = true })
		selector.AddReceive(f.wakes, func(c workflow.ReceiveChannel, _ bool) {
			var wake Wake
			c.Receive(ctx, &wake)
			failed = f.take(ctx, wake)
		})
		f.heedQuestions(selector, &failed)
		selector.Select(ctx)
		if failed != nil {
			return failed
		}
	}
	if f.at.ended() {
		return nil
	}
	var answer RefundProgress
	if err := call.Get(ctx, &answer); err != nil {
		if ctx.Err() != nil {
			return err // the flow is cancelled; its row goes on with the next one
		}
		if answer, err = step[RefundProgress](ctx, "the outcome is unknown", RefundUnknownActivity, f.in.RefundID); err != nil {
			return err
		}
	}
	f.at = answer
	f.describe(ctx, fmt.Sprintf("asked %d times", f.polls+1))
	for _, id := range answer.Events {
		if err := f.book(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// wait lets the plan's pause pass, and books what comes meanwhile.
func (f *refundFlow) wait(ctx workflow.Context) error {
	if f.polls-f.in.Polls >= refundRunPolls || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		// All signals are taken: heed came right before.
		return workflow.NewContinueAsNewError(ctx, RefundWorkflow, RefundInput{RefundID: f.in.RefundID, Channel: f.in.Channel, Polls: max(1, f.polls)})
	}
	timerCtx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimer(timerCtx, RefundPause(f.polls))
	over := false
	var failed error
	for !over && !f.due && !f.at.ended() {
		selector := workflow.NewSelector(ctx)
		selector.AddFuture(timer, func(t workflow.Future) {
			over = true
			failed = t.Get(ctx, nil)
		})
		selector.AddReceive(f.wakes, func(c workflow.ReceiveChannel, _ bool) {
			var wake Wake
			c.Receive(ctx, &wake)
			failed = f.take(ctx, wake)
		})
		f.heedQuestions(selector, &failed)
		selector.Select(ctx)
		if failed != nil {
			return failed
		}
	}
	if over {
		f.polls++
		f.due = true
	}
	return nil
}

func (f *refundFlow) describe(ctx workflow.Context, last string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**Refund** %d: **%s**\n\nLast: %s", f.in.RefundID, f.at.State, last))
}
