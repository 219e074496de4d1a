package acquiring

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

var (
	//go:embed sql/begin_prepay.sql
	beginPrepaySQL string
	//go:embed sql/prepaid.sql
	prepaidSQL string
	//go:embed sql/prepay_failed.sql
	prepayFailedSQL string
)

// Prepay announces an order to its channel and keeps what the payer needs. It returns the order's prepay state, READY or
// FAILED, or empty when the order can not be paid any more. Any error leaves the announcement open: call again.
// Errors: [payment.ErrNotFound], or what made the call's outcome unknown.
func (s *Service) Prepay(ctx context.Context, paymentID int64) (state string, err error) {
	var calls int
	err = s.pool.QueryRow(ctx, beginPrepaySQL, paymentID, s.now()).Scan(&calls)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.prepayState(ctx, paymentID)
	}
	if err != nil {
		return "", fmt.Errorf("begin to announce payment %d: %w", paymentID, err)
	}
	o, err := s.read(ctx, paymentID)
	if err != nil {
		return "", err
	}
	acct, a, err := s.acquirer(ctx, o)
	if errors.Is(err, ErrNoAcquirer) {
		return s.failPrepay(ctx, o, err)
	}
	if err != nil {
		return "", err
	}
	asked, err := s.asChannelOrder(o, acct)
	if err != nil {
		return "", err
	}
	if calls > 1 {
		// An earlier call may have arrived, and its order may be paid by now.
		standing, err := a.Query(ctx, asked)
		if err != nil {
			return "", fmt.Errorf("ask about order %s before it is announced again: %w", o.OutTradeNo, err)
		}
		switch standing.State {
		case channel.OrderPaid:
			return "", s.report(ctx, acct, o, standing)
		case channel.OrderClosed:
			return s.failPrepay(ctx, o, errors.New("the channel has closed the order"))
		}
	}
	prepaid, err := a.Prepay(ctx, asked)
	if channel.Definite(err) {
		return s.failPrepay(ctx, o, err)
	}
	if err != nil {
		return "", fmt.Errorf("announce order %s: %w", o.OutTradeNo, err)
	}
	tag, err := s.pool.Exec(ctx, prepaidSQL, o.ID, prepaid.Data, prepaid.Reference)
	if err != nil {
		return "", fmt.Errorf("keep what the channel answered for order %s: %w", o.OutTradeNo, err)
	}
	if tag.RowsAffected() == 0 {
		return s.overtaken(ctx, a, asked, o)
	}
	return payment.PrepayReady, nil
}

// overtaken looks why an answer came too late: an order that was closed meanwhile must not stay payable at the channel.
func (s *Service) overtaken(ctx context.Context, a channel.Acquirer, asked channel.Order, o order) (string, error) {
	now, err := s.read(ctx, o.ID)
	if err != nil {
		return "", err
	}
	if now.State == payment.Closed {
		if err := a.Close(ctx, asked); err != nil && !errors.Is(err, channel.ErrPaid) {
			return "", fmt.Errorf("close order %s, which was closed here while it was announced: %w", o.OutTradeNo, err)
		}
		return "", nil // paid all the same: its callback is booked as a late payment
	}
	return s.prepayState(ctx, o.ID)
}

func (s *Service) prepayState(ctx context.Context, paymentID int64) (string, error) {
	o, err := s.read(ctx, paymentID)
	if err != nil || o.PrepayState == nil || o.State != payment.Pending {
		return "", err
	}
	if *o.PrepayState == payment.PrepayPending {
		return "", nil // it is being closed, or about to be
	}
	return *o.PrepayState, nil
}

func (s *Service) failPrepay(ctx context.Context, o order, why error) (string, error) {
	if _, err := s.pool.Exec(ctx, prepayFailedSQL, o.ID, why.Error()); err != nil {
		return "", fmt.Errorf("record that order %s was refused: %w", o.OutTradeNo, err)
	}
	s.log.Info("the channel refused to announce an order", zap.String("tenant", o.TenantID), zap.String("order", o.OutTradeNo), zap.Error(why))
	return payment.PrepayFailed, nil
}

// report takes the channel's word on a paid order through the one entry.
func (s *Service) report(ctx context.Context, acct tenant.Account, o order, standing channel.Standing) error {
	if _, err := s.entry.Report(ctx, acct, standing.Body, s.now()); err != nil {
		return fmt.Errorf("store what the channel says of order %s: %w", o.OutTradeNo, err)
	}
	return nil
}
