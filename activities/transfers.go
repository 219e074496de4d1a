package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/workflows"
)

// Transfers carries out the steps of transfers.
type Transfers struct {
	Service *transfer.Service
	Log     *zap.Logger
}

// Try implements [workflows.TransferTryActivity].
func (t *Transfers) Try(ctx context.Context, transferID int64) (workflows.Progress, error) {
	p, err := t.Service.Try(ctx, transferID)
	return progress(p), lasting(err)
}

// Decide implements [workflows.TransferDecideActivity].
func (t *Transfers) Decide(ctx context.Context, d workflows.TransferDecision) (workflows.Progress, error) {
	p, err := t.Service.Decide(ctx, d.TransferID, d.Failure)
	return progress(p), lasting(err)
}

// Settle implements [workflows.TransferSettleActivity].
func (t *Transfers) Settle(ctx context.Context, d workflows.TransferDecision) (workflows.Progress, error) {
	p, err := t.Service.Settle(ctx, d.TransferID, d.Failure)
	return progress(p), lasting(err)
}

// End implements [workflows.TransferEndActivity].
func (t *Transfers) End(ctx context.Context, e workflows.TransferEnd) (workflows.Progress, error) {
	p, err := t.Service.End(ctx, e.TransferID, e.Last)
	return progress(p), lasting(err)
}

// alertAfter is the attempt at which a participant that fails to confirm or cancel becomes somebody's business.
const alertAfter = 5

// Call implements [workflows.ParticipantActivity]. Only a Try can be refused for good; a Confirm or Cancel goes on until
// it succeeds, and is alerted.
func (t *Transfers) Call(ctx context.Context, c workflows.ParticipantCall) error {
	err := t.Service.Call(ctx, c.TransferID, c.Leg, c.Phase)
	var refused *transfer.Refused
	if c.Phase == "try" && errors.As(err, &refused) {
		return temporal.NewNonRetryableApplicationError(refused.Error(), workflows.RefusedByParticipant, nil)
	}
	if errors.Is(err, transfer.ErrOtherPhase) {
		return temporal.NewNonRetryableApplicationError(err.Error(), "OtherPhase", nil)
	}
	if err != nil && c.Phase != "try" && activity.GetInfo(ctx).Attempt%alertAfter == 0 {
		alert.Raise(t.Log, alert.TransferStuck, "a participant does not "+c.Phase, zap.Int64("transfer", c.TransferID), zap.Int("leg", c.Leg),
			zap.Int32("attempt", activity.GetInfo(ctx).Attempt), zap.Error(err))
	}
	return err
}

func progress(p transfer.Progress) workflows.Progress {
	return workflows.Progress{State: string(p.State), Failure: p.Failure, External: p.External}
}

// lasting marks an error that no retry will change.
func lasting(err error) error {
	if errors.Is(err, transfer.ErrNotFound) {
		return temporal.NewNonRetryableApplicationError("no such transfer", "TransferNotFound", err)
	}
	return err
}
