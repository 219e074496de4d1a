package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/workflows"
)

// Refunds carries out the steps of refunds.
type Refunds struct {
	Service *refund.Service
	// Fees asks about the fees of payments.
	Fees *acquiring.Service
	Log  *zap.Logger
}

// Look implements [workflows.RefundLookActivity].
func (r *Refunds) Look(ctx context.Context, refundID int64) (workflows.RefundProgress, error) {
	p, err := r.Service.Look(ctx, refundID)
	return refundProgress(p), noRefund(err)
}

// Advance implements [workflows.RefundAdvanceActivity].
func (r *Refunds) Advance(ctx context.Context, a workflows.RefundAdvance) (workflows.RefundProgress, error) {
	defer alive(ctx)()
	p, err := r.Service.Advance(ctx, a.RefundID, time.Duration(a.Next)*time.Second)
	return refundProgress(p), noRefund(err)
}

// Unknown implements [workflows.RefundUnknownActivity].
func (r *Refunds) Unknown(ctx context.Context, refundID int64) (workflows.RefundProgress, error) {
	p, err := r.Service.Unknown(ctx, refundID)
	return refundProgress(p), noRefund(err)
}

// AskAbout implements [workflows.AskAboutActivity]. A channel that does not say what an event is about becomes somebody's
// business.
func (r *Refunds) AskAbout(ctx context.Context, eventID int64) ([]int64, error) {
	defer alive(ctx)()
	events, err := r.askAbout(ctx, eventID)
	if errors.Is(err, payment.ErrEventNotFound) {
		return nil, temporal.NewNonRetryableApplicationError("no such event", "EventNotFound", err)
	}
	if attempt := activity.GetInfo(ctx).Attempt; err != nil && attempt%alertAfter == 0 {
		alert.Raise(r.Log, alert.InquiryStuck, "a channel does not answer about an event", zap.Int64("event", eventID), zap.Int32("attempt", attempt), zap.Error(err))
	}
	return events, err
}

func (r *Refunds) askAbout(ctx context.Context, eventID int64) ([]int64, error) {
	kind, err := r.Service.KindOf(ctx, eventID)
	switch {
	case err != nil:
		return nil, err
	case kind == channel.PayFeeHint:
		return r.Fees.AskFee(ctx, eventID)
	}
	return r.Service.AskAbout(ctx, eventID)
}

func refundProgress(p refund.Progress) workflows.RefundProgress {
	return workflows.RefundProgress{State: string(p.State), Asks: p.Asks, Events: p.Events}
}

// noRefund marks an error that no retry will change.
func noRefund(err error) error {
	if errors.Is(err, refund.ErrNotFound) {
		return temporal.NewNonRetryableApplicationError("no such refund", "RefundNotFound", err)
	}
	return err
}
