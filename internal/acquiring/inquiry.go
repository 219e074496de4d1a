package acquiring

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

//go:embed sql/claim_asks.sql
var claimAsksSQL string

// Inquire asks an order's channel what became of it. What is paid is reported to the entry. What is to be closed, because
// its time is over or its merchant asked for it, is closed at the channel first and then here, and never here before the
// channel has said so. It returns the channel's word. Any error leaves the order as it is: call again.
// Errors: [payment.ErrNotFound], [ErrNoAcquirer], or what made the answer unknown.
func (s *Service) Inquire(ctx context.Context, paymentID int64) (channel.OrderState, error) {
	o, err := s.read(ctx, paymentID)
	if err != nil {
		return "", err
	}
	switch o.State {
	case payment.Pending:
	case payment.Closed:
		return channel.OrderClosed, nil
	default:
		return channel.OrderPaid, nil
	}
	acct, a, err := s.acquirer(ctx, o)
	refused := deref(o.PrepayState) == payment.PrepayFailed
	if errors.Is(err, ErrNoAcquirer) && refused {
		return s.close(ctx, o, nil, channel.Order{}, channel.Standing{State: channel.OrderUnknown})
	}
	if err != nil {
		return "", err
	}
	asked, err := s.asChannelOrder(o, acct)
	if err != nil {
		return "", err
	}
	standing, err := a.Query(ctx, asked)
	if channel.Definite(err) && refused {
		// It never got to the channel, which does not even want to be asked about it.
		return s.close(ctx, o, nil, asked, channel.Standing{State: channel.OrderUnknown})
	}
	if err != nil {
		return "", fmt.Errorf("ask about order %s: %w", o.OutTradeNo, err)
	}
	if standing.State == channel.OrderPaid {
		return standing.State, s.report(ctx, acct, o, standing)
	}
	return s.close(ctx, o, a, asked, standing)
}

// close closes an unpaid order where that is due: at the channel, unless a is nil, and then here.
func (s *Service) close(ctx context.Context, o order, a channel.Acquirer, asked channel.Order, standing channel.Standing) (channel.OrderState, error) {
	reason := "merchant"
	if !o.CloseRequested {
		if s.now().Before(o.ExpiresAt) {
			return standing.State, nil // it may still be paid
		}
		reason = "expired"
	}
	if standing.State != channel.OrderClosed && a != nil {
		// An order that the channel does not know may be on its way to it: it is closed there as well.
		if err := a.Close(ctx, asked); err != nil {
			return "", fmt.Errorf("close order %s at the channel: %w", o.OutTradeNo, err) // paid meanwhile: the next call sees it
		}
	}
	state, err := s.books.Close(ctx, o.ID, reason, o.PrepayState)
	switch {
	case err != nil:
		return "", err
	case state == payment.Pending:
		return "", fmt.Errorf("order %s has moved while it was closed at the channel: it is looked after again", o.OutTradeNo)
	case state == payment.Closed:
		return channel.OrderClosed, nil
	}
	return channel.OrderPaid, nil
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

const (
	// askAgain is when an order that is being closed is looked after again, should its flow have been lost.
	askAgain = 5 * time.Minute
	// asksAtOnce bounds one round.
	asksAtOnce = 100
	// giveUpAfter failures in a row the engine is taken to be away: the rest of a round is not tried.
	giveUpAfter = 3
	// closingTooLong is when an order that is not closed yet becomes somebody's business.
	closingTooLong = 30 * time.Minute
	// startTimeout bounds the hand-over of one order to the engine.
	startTimeout = 500 * time.Millisecond
)

// Redrive hands every order whose channel is to be asked to its flow, and returns how many the engine took. What it did not
// take comes again.
func (s *Service) Redrive(ctx context.Context) (started int, err error) {
	now := s.now()
	rows, err := s.pool.Query(ctx, claimAsksSQL, now, now.Add(s.askAgain), asksAtOnce)
	if err != nil {
		return 0, fmt.Errorf("claim orders to ask about: %w", err)
	}
	type claimed struct {
		Ref
		EndsAt time.Time `db:"ends_at"`
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[claimed])
	if err != nil {
		return 0, fmt.Errorf("claim orders to ask about: %w", err)
	}
	var refused []int64
	failed := 0
	var late []string
	for _, c := range due {
		if now.Sub(c.EndsAt) > closingTooLong {
			late = append(late, c.TenantID+"/"+c.OutTradeNo)
		}
		if failed == giveUpAfter {
			refused = append(refused, c.PaymentID)
			continue
		}
		if err := s.start(ctx, c.Ref); err != nil {
			failed++
			refused = append(refused, c.PaymentID)
			s.log.Warn("the engine did not take an inquiry; it comes again", zap.String("tenant", c.TenantID), zap.String("order", c.OutTradeNo), zap.Error(err))
			continue
		}
		failed = 0
		started++
	}
	if len(late) > 0 {
		alert.Raise(s.log, alert.InquiryStuck, "orders that are over do not get closed", zap.Strings("orders", late))
	}
	if len(refused) > 0 {
		_, err = s.pool.Exec(ctx, "UPDATE payments SET next_ask_at = $2 WHERE id = ANY($1) AND state = 'PENDING'", refused, now.Add(askSoon))
	}
	return started, err
}

// askSoon is when an order comes again that the engine did not take.
const askSoon = 10 * time.Second

// RequestClose hands an order that its merchant wants closed to its flow. A failure is harmless: the wish is stored, and the
// re-drive comes.
func (s *Service) RequestClose(ctx context.Context, ref Ref) {
	if err := s.start(ctx, ref); err != nil {
		s.log.Warn("the engine did not take a closing; the re-drive will start it", zap.String("tenant", ref.TenantID), zap.String("order", ref.OutTradeNo), zap.Error(err))
	}
}

func (s *Service) start(ctx context.Context, ref Ref) error {
	if s.driver == nil {
		return errors.New("there is no engine")
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	return s.driver.StartInquiry(bounded, ref)
}
