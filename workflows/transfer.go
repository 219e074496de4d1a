package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// TransferInput names the transfer's row.
type TransferInput struct {
	TransferID int64 `json:"transfer_id"`
	// Tried says that who made the row has tried it in the same transaction, and that money in the database is all it moves.
	Tried bool `json:"tried,omitempty"`
}

// Progress is where a step found or left a transfer.
type Progress struct {
	State string `json:"state"`
	// Failure is the code of a definite refusal, or why the transfer was cancelled.
	Failure string `json:"failure,omitempty"`
	// External are the numbers of the legs that external participants carry out.
	External []int `json:"external,omitempty"`
}

// TransferDecision asks to make the decision durable: confirm when Failure is empty, else cancel.
type TransferDecision struct {
	TransferID int64  `json:"transfer_id"`
	Failure    string `json:"failure,omitempty"`
}

// TransferEnd asks to confirm or cancel the legs in the database, as the row says; Last says that all others have ended.
type TransferEnd struct {
	TransferID int64 `json:"transfer_id"`
	Last       bool  `json:"last"`
}

// ParticipantCall asks for one phase of one external leg.
type ParticipantCall struct {
	TransferID int64  `json:"transfer_id"`
	Leg        int    `json:"leg"`
	Phase      string `json:"phase"` // try, confirm or cancel
}

// States and codes that the flow itself distinguishes.
const (
	transferTrying     = "TRYING"
	transferConfirming = "CONFIRMING"
	transferCancelling = "CANCELLING"
	transferConfirmed  = "CONFIRMED"
	transferCancelled  = "CANCELLED"

	failureCanceled = "canceled"
	failureAway     = "participant_away"
	failureRefused  = "participant_refused"
)

// RefusedByParticipant is the type of a participant's definite refusal: trying again does not change it.
const RefusedByParticipant = "ParticipantRefused"

// A Try may be answered late or never; after this long it is cancelled, which is safe.
const (
	participantTimeout = 10 * time.Second
	tryAttempts        = 4
	tryFor             = 45 * time.Second
)

// Transfer tries all legs, has the decision made durable, and then confirms or cancels them, for as long as it takes.
// Until the decision its cancellation cancels the transfer; from the decision on nothing turns it back. Run again under
// its id, it goes on from what the row says.
func Transfer(ctx workflow.Context, in TransferInput) (Progress, error) {
	describeTransfer(ctx, in, "trying")
	failure := ""
	p, err := tryTransfer(ctx, in)
	switch {
	case temporal.IsCanceledError(err):
		failure = failureCanceled
	case err != nil:
		return p, err
	case p.State == transferTrying && p.Failure != "":
		failure = p.Failure
	case p.State == transferTrying:
		failure = tryParticipants(ctx, in, p.External)
	}

	// The decision and what follows it are beyond cancellation.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if p.State == transferTrying && len(p.External) == 0 {
		p, err = step[Progress](ctx, "settle transfer", TransferSettleActivity, TransferDecision{in.TransferID, failure})
		describeTransfer(ctx, in, p.State)
		return p, err
	}
	if p.State == transferTrying || p.State == "" {
		if p, err = step[Progress](ctx, "decide transfer", TransferDecideActivity, TransferDecision{in.TransferID, failure}); err != nil {
			return p, err
		}
	}
	describeTransfer(ctx, in, p.State)
	switch p.State {
	case transferConfirming:
		return endTransfer(ctx, in, p, "confirm")
	case transferCancelling:
		return endTransfer(ctx, in, p, "cancel")
	case transferConfirmed, transferCancelled:
		return p, nil // an earlier run has brought it to its end
	default:
		return p, temporal.NewNonRetryableApplicationError("the transfer is in the unknown state "+p.State, "UnknownState", nil)
	}
}

func tryTransfer(ctx workflow.Context, in TransferInput) (Progress, error) {
	if in.Tried {
		return Progress{State: transferTrying}, ctx.Err()
	}
	return step[Progress](ctx, "try transfer", TransferTryActivity, in.TransferID)
}

func endTransfer(ctx workflow.Context, in TransferInput, p Progress, phase string) (Progress, error) {
	external := p.External
	p, err := step[Progress](ctx, phase+" transfer", TransferEndActivity, TransferEnd{in.TransferID, len(external) == 0})
	if err != nil {
		return p, err
	}
	if len(external) > 0 {
		if err := endParticipants(ctx, in, external, phase); err != nil {
			return p, err
		}
		if p, err = step[Progress](ctx, "end transfer", TransferEndActivity, TransferEnd{in.TransferID, true}); err != nil {
			return p, err
		}
	}
	describeTransfer(ctx, in, p.State)
	return p, nil
}

// tryParticipants asks all external participants at once and gives the first refusal in the order of the legs.
func tryParticipants(ctx workflow.Context, in TransferInput, legs []int) (failure string) {
	calls := callParticipants(ctx, in, legs, "try", &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: tryAttempts, NonRetryableErrorTypes: []string{RefusedByParticipant},
	}, tryFor)
	for _, call := range calls {
		err := call.Get(ctx, nil)
		var refused *temporal.ApplicationError
		switch {
		case err == nil || failure != "":
		case temporal.IsCanceledError(err):
			failure = failureCanceled
		case errors.As(err, &refused) && refused.Type() == RefusedByParticipant:
			failure = failureRefused
		default:
			failure = failureAway // whether it did anything is unknown: Cancel settles it
		}
	}
	return failure
}

// endParticipants confirms or cancels until each participant has said yes.
func endParticipants(ctx workflow.Context, in TransferInput, legs []int, phase string) error {
	var first error
	for _, call := range callParticipants(ctx, in, legs, phase, &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute,
	}, 0) {
		if err := call.Get(ctx, nil); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func callParticipants(ctx workflow.Context, in TransferInput, legs []int, phase string, retry *temporal.RetryPolicy, within time.Duration) (calls []workflow.Future) {
	for _, leg := range legs {
		call := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              ParticipantsQueue,
			StartToCloseTimeout:    participantTimeout,
			ScheduleToCloseTimeout: within,
			RetryPolicy:            retry,
			Summary:                fmt.Sprintf("%s leg %d", phase, leg),
		})
		calls = append(calls, workflow.ExecuteActivity(call, ParticipantActivity, ParticipantCall{in.TransferID, leg, phase}))
	}
	return calls
}

func describeTransfer(ctx workflow.Context, in TransferInput, state string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**Transfer** %d: **%s**", in.TransferID, state))
}
