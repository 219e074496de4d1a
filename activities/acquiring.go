package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/payment"
)

// Acquiring asks channels about orders.
type Acquiring struct {
	Service *acquiring.Service
	Log     *zap.Logger
}

// Prepay implements [workflows.PrepayActivity].
func (a *Acquiring) Prepay(ctx context.Context, paymentID int64) (string, error) {
	state, err := a.Service.Prepay(ctx, paymentID)
	return state, lost(err)
}

// Inquire implements [workflows.InquireActivity]. A channel that does not say what became of an order that shall be closed
// becomes somebody's business.
func (a *Acquiring) Inquire(ctx context.Context, paymentID int64) (string, error) {
	state, err := a.Service.Inquire(ctx, paymentID)
	if attempt := activity.GetInfo(ctx).Attempt; err != nil && attempt%alertAfter == 0 {
		alert.Raise(a.Log, alert.InquiryStuck, "a channel does not answer about an order", zap.Int64("payment", paymentID), zap.Int32("attempt", attempt), zap.Error(err))
	}
	return string(state), lost(err)
}

// lost marks an error that no retry will change.
func lost(err error) error {
	if errors.Is(err, payment.ErrNotFound) || errors.Is(err, acquiring.ErrNoAcquirer) {
		return temporal.NewNonRetryableApplicationError(err.Error(), "NothingToAsk", err)
	}
	return err
}
