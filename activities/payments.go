// Package activities carries out the side effects that workflows name. Each is thin: it calls the package that owns the
// matter and translates the answer. Each may run any number of times for one call.
package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/workflows"
)

// Payments books events.
type Payments struct{ Books *payment.Books }

// ApplyEvent implements [workflows.ApplyEventActivity]. An event that does not exist is not retried; every other error is
// the database's and passes.
func (p *Payments) ApplyEvent(ctx context.Context, eventID int64) (workflows.Applied, error) {
	applied, err := p.Books.Apply(ctx, eventID)
	if errors.Is(err, payment.ErrEventNotFound) {
		return workflows.Applied{}, temporal.NewNonRetryableApplicationError("no such event", "EventNotFound", err)
	}
	if err != nil {
		return workflows.Applied{}, err
	}
	return workflows.Applied{
		EventState:   string(applied.EventState),
		Outcome:      string(applied.Outcome),
		PaymentState: string(applied.PaymentState),
		Matter:       applied.Matter,
		Ask:          applied.Ask,
	}, nil
}
