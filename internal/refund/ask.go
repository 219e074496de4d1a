package refund

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
)

// AskAbout asks the channel what an event that must not be booked on its own word is about: a hint, or what contradicts a
// refund's end. It writes down what the channel says of the refund, and that it was asked, and gives the events out of the
// answer that wait to be booked. Errors: [payment.ErrEventNotFound], or what kept the channel from answering: ask again.
func (s *Service) AskAbout(ctx context.Context, eventID int64) (events []int64, err error) {
	ev, err := payment.ReadEvent(ctx, s.pool, eventID)
	if err != nil {
		return nil, err
	}
	// Asked again, it gives the same events again: whoever asked before may have died before it could book them.
	if ev.State == payment.Received {
		if events, err = s.askAbout(ctx, ev); err != nil {
			return nil, fmt.Errorf("ask about event %d: %w", eventID, err)
		}
		if _, err := s.pool.Exec(ctx, "UPDATE channel_events SET asked_at = $2 WHERE id = $1 AND state = 'RECEIVED'", ev.ID, s.now()); err != nil {
			return nil, fmt.Errorf("write down that the channel was asked about event %d: %w", eventID, err)
		}
	}
	return events, nil
}

// KindOf tells what kind of event it is, of which not all are about refunds. Error: [payment.ErrEventNotFound].
func (s *Service) KindOf(ctx context.Context, eventID int64) (channel.Kind, error) {
	ev, err := payment.ReadEvent(ctx, s.pool, eventID)
	return ev.Kind, err
}

func (s *Service) askAbout(ctx context.Context, ev payment.Event) (events []int64, err error) {
	about, err := s.about(ctx, ev)
	for _, r := range about {
		if err != nil {
			break
		}
		var found []int64
		found, err = s.askOne(ctx, r)
		events = append(events, found...)
	}
	return events, err
}

// about lists the refunds that an event may be about; none where booking it will say so.
func (s *Service) about(ctx context.Context, ev payment.Event) ([]Refund, error) {
	if ev.Kind == channel.RefundHint && ev.OutNo == "" {
		rows, err := s.pool.Query(ctx, refundSQL+" WHERE r.account_id = $1 AND r.transaction_id = $2 AND r.state IN ('PENDING', 'UNKNOWN') ORDER BY r.id", ev.AccountID, ev.TransactionID)
		if err != nil {
			return nil, fmt.Errorf("list the open refunds of transaction %s: %w", ev.TransactionID, err)
		}
		return pgx.CollectRows(rows, pgx.RowToStructByName[Refund])
	}
	r, err := find(ctx, s.pool, ev)
	if errors.Is(err, ErrNotFound) {
		r, err = s.asIfOurs(ctx, ev)
	}
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return []Refund{r}, err
}

// askOne asks the channel about a refund, writes down what it says, and gives the events of its answer.
func (s *Service) askOne(ctx context.Context, r Refund) ([]int64, error) {
	acct, a, err := s.acquirer(ctx, r)
	if errors.Is(err, channel.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	told, err := s.asChannelRefund(ctx, r)
	if err != nil {
		return nil, err
	}
	standing, err := a.QueryRefund(ctx, told)
	if channel.Definite(err) {
		standing, err = channel.RefundStanding{State: channel.RefundUnknown}, nil
	}
	if err != nil {
		return nil, err
	}
	if r.ID != 0 {
		if err := s.note(ctx, r, r.State, r.Abnormal, standing, r.Failure); err != nil {
			return nil, err
		}
	}
	if standing.State != channel.RefundSucceeded && standing.State != channel.RefundRefused {
		return nil, nil
	}
	return s.report(ctx, acct, standing)
}

// asIfOurs is a refund of which only a hint is known: made in the channel's console, under a number that was chosen there.
// Error: [ErrNotFound] where no money of ours has its transaction.
func (s *Service) asIfOurs(ctx context.Context, ev payment.Event) (Refund, error) {
	m, err := moneyOf(ctx, s.pool, ev)
	if err == nil && !m.known {
		err = ErrNotFound
	}
	if err != nil {
		return Refund{}, err
	}
	r := Refund{
		TenantID: ev.TenantID, OutRefundNo: ev.OutNo, PaymentID: m.paymentID, EventID: m.eventID, OutTradeNo: ev.OutTradeNo,
		AccountID: ev.AccountID, Channel: ev.Channel, Account: ev.Account, TransactionID: ev.TransactionID, Currency: m.currency,
	}
	if ev.Amount != nil {
		r.Amount = *ev.Amount
	}
	return r, nil
}

// tell says for people how a refund went that ended without an event.
func (s *Service) tell(r Refund, v payment.Verdict) {
	log := s.log.With(zap.String("tenant", r.TenantID), zap.String("refund", r.OutRefundNo), zap.String("order", r.OutTradeNo), zap.String("amount", money.Format(r.Amount, r.Currency)))
	if v.Alert != "" {
		alert.Raise(log, v.Alert, v.Reason)
		return
	}
	log.Info("refund ended", zap.String("outcome", string(v.Outcome)), zap.String("reason", v.Reason))
}
