package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"
)

// Payment books the events of one order that are there, and ends. It is opened by the first event, never for an unpaid
// order, and its id admits one at a time. A signal that comes too late for it loses nothing: the event's row is there, and
// goes to a flow of its own. It writes no search attributes: its id names the tenant and the order, and the engine's index would
// take a tenth of what the whole flow costs.
func Payment(ctx workflow.Context, in PaymentInput) (PaymentResult, error) {
	wakes := workflow.GetSignalChannel(ctx, WakeSignal)
	result := PaymentResult{State: paymentPending}
	wake := Wake{in.EventID}
	if in.EventID == 0 {
		wakes.Receive(ctx, &wake)
	}
	// Drained before the return, no signal is left behind.
	for more := true; more; more = wakes.ReceiveAsync(&wake) {
		applied, err := apply(ctx, wake.EventID)
		if err != nil {
			return result, err
		}
		result.Events++
		if applied.PaymentState != "" {
			result.State = applied.PaymentState
		}
		describe(ctx, in, result, fmt.Sprintf("event %d: %s", wake.EventID, applied.Outcome))
	}
	return result, nil
}

// Event books one event that has no flow of its order or matter to go to: a second payment, a late one, a word about a refund
// that has ended.
func Event(ctx workflow.Context, in EventInput) (Applied, error) {
	applied, err := book(ctx, in.EventID)
	if err != nil {
		return applied, err
	}
	return applied, workflow.UpsertTypedSearchAttributes(ctx, StateAttribute.ValueSet(applied.Outcome))
}

func describe(ctx workflow.Context, in PaymentInput, r PaymentResult, last string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**Order** `%s` of `%s`: **%s**\n\nLast: %s", in.OutTradeNo, in.Tenant, r.State, last))
}
