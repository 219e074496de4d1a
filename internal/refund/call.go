package refund

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

var (
	//go:embed sql/begin_call.sql
	beginCallSQL string
	//go:embed sql/note.sql
	noteSQL string
)

// Progress is where a call or a question left a refund.
type Progress struct {
	State State
	// Asks tells whether the refund's channel can be asked; if not, only a callback ends it.
	Asks bool
	// Events are reports out of the channel's answer that wait to be booked.
	Events []int64
}

// Look reads where a refund stands. Error: [ErrNotFound].
func (s *Service) Look(ctx context.Context, refundID int64) (Progress, error) {
	r, err := one(ctx, s.pool, "r.id = $1", refundID)
	return Progress{State: r.State, Asks: r.Asks}, err
}

// Advance does the one thing that is due for an open refund: it calls the channel, or asks it where an earlier call may have
// arrived, and calls again under the same number only when the channel says that it has no such refund. What the channel says
// of an end is reported to the entry and comes back as Events; what it says otherwise is written down. next is when the flow
// comes again: until some time after it the re-drive leaves the refund alone. Where the outcome is unknown the refund is
// UNKNOWN, and no error. Error: [ErrNotFound], or the database's.
func (s *Service) Advance(ctx context.Context, refundID int64, next time.Duration) (Progress, error) {
	r, err := one(ctx, s.pool, "r.id = $1", refundID)
	if err != nil || r.State.Ended() || !r.Asks {
		return Progress{State: r.State, Asks: r.Asks}, err
	}
	// The call itself may take a while, and so may the queue.
	if _, err := s.pool.Exec(ctx, "UPDATE refunds SET next_drive_at = $2 WHERE id = $1 AND state IN ('PENDING', 'UNKNOWN')", r.ID, s.now().Add(next+2*s.restart)); err != nil {
		return Progress{}, fmt.Errorf("put off the re-drive of refund %s: %w", r.OutRefundNo, err)
	}
	acct, a, err := s.acquirer(ctx, r)
	if err != nil {
		return Progress{}, err
	}
	told, err := s.asChannelRefund(ctx, r)
	if err == nil {
		told.NotifyURL, err = acct.CallbackURL(s.publicURL)
	}
	if err != nil {
		return Progress{}, err
	}
	var standing channel.RefundStanding
	if err = s.collect(ctx, r); err == nil {
		standing, err = s.standing(ctx, a, r, told)
	}
	var no *refusal
	switch {
	case errors.Is(err, errAwaiting):
		return Progress{State: r.State, Asks: true}, nil
	case errors.As(err, &no):
		return s.fail(ctx, r, no)
	case errors.Is(err, errElsewhere):
		return s.Look(ctx, r.ID)
	case err != nil:
		return s.unknown(ctx, r, err.Error())
	}
	return s.record(ctx, acct, r, standing)
}

// refusal says that a refund will not be done: nothing was paid back, and nothing will be.
type refusal struct {
	why   string
	calls int // how often the channel had been called when it said so
}

// knownAfter is when a channel knows of a call that it carries out. Alipay may take ten seconds, in which it neither tells of
// the refund when asked nor needs to take the call again.
const knownAfter = 20 * time.Second

func (r *refusal) Error() string { return r.why }

// errElsewhere says that somebody else is calling for this refund, or has ended it.
var errElsewhere = errors.New("the refund is being carried out elsewhere")

// standing gets the channel's word on a refund: by asking, where it was called before, and by calling, where it was not or does
// not know it. Errors: [*refusal], [errElsewhere], or what made the outcome unknown.
func (s *Service) standing(ctx context.Context, a channel.Acquirer, r Refund, told channel.Refund) (channel.RefundStanding, error) {
	if r.Calls == 0 {
		if err := s.confirmed(ctx, a, r, told); err != nil {
			return channel.RefundStanding{}, err
		}
		standing, _, err := s.call(ctx, a, r, told)
		return standing, err
	}
	standing, err := a.QueryRefund(ctx, told)
	if err != nil || standing.State != channel.RefundUnknown {
		return standing, err
	}
	standing, before, err := s.call(ctx, a, r, told)
	var no *refusal
	if !errors.As(err, &no) {
		return standing, err
	}
	// The channel refuses this call, and may do so because an earlier one has arrived since it was asked.
	again, askErr := a.QueryRefund(ctx, told)
	switch {
	case askErr != nil:
		return again, askErr
	case again.State != channel.RefundUnknown:
		return again, nil
	case before != nil && s.now().Sub(*before) < knownAfter:
		return again, fmt.Errorf("%s; an earlier call may have arrived all the same", no.why)
	}
	return again, no
}

// call calls the channel, after it is written down that it is called. before is when it was called the last time.
func (s *Service) call(ctx context.Context, a channel.Acquirer, r Refund, told channel.Refund) (standing channel.RefundStanding, before *time.Time, err error) {
	err = s.pool.QueryRow(ctx, beginCallSQL, r.ID, r.Calls, s.now()).Scan(&before)
	if errors.Is(err, pgx.ErrNoRows) {
		return standing, nil, errElsewhere
	}
	if err != nil {
		return standing, nil, fmt.Errorf("write down that refund %s is called for: %w", r.OutRefundNo, err)
	}
	standing, err = a.Refund(ctx, told)
	if channel.Definite(err) {
		return standing, before, &refusal{err.Error(), r.Calls + 1}
	}
	return standing, before, err
}

// confirmed asks whether the payment of money in suspense exists at the channel and is paid, where no person has said that it
// shall go back. Errors: [*refusal] where the channel knows of no such payment.
func (s *Service) confirmed(ctx context.Context, a channel.Acquirer, r Refund, told channel.Refund) error {
	if !r.ConfirmFirst {
		return nil
	}
	standing, err := a.Query(ctx, channel.Order{OutTradeNo: r.OutTradeNo, Amount: told.Total, Currency: r.Currency, Reference: r.TransactionID})
	if channel.Definite(err) {
		return &refusal{"the channel was asked about the payment first: " + err.Error(), r.Calls}
	}
	if err != nil {
		return err
	}
	if standing.State != channel.OrderPaid {
		return &refusal{fmt.Sprintf("the channel was asked about the payment first and says that it is %s", standing.State), r.Calls}
	}
	acct, ok := a.(channel.Account)
	if !ok {
		return fmt.Errorf("account %s/%s answers and cannot read", r.Channel, r.Account)
	}
	events, err := channel.Read(acct, standing.Body)
	if err != nil {
		return fmt.Errorf("read the channel's word on the payment: %w", err)
	}
	for _, e := range events {
		if e.Kind == channel.PaySuccess && e.TransactionID == r.TransactionID && e.Amount == told.Total && e.Currency == r.Currency && e.Mismatch == "" {
			return nil
		}
	}
	return &refusal{"the channel was asked about the payment first and tells of another transaction or amount", r.Calls}
}

// record writes the channel's word down. The word on an end is an event, and enters by the same door as a callback.
func (s *Service) record(ctx context.Context, acct tenant.Account, r Refund, standing channel.RefundStanding) (Progress, error) {
	switch standing.State {
	case channel.RefundSucceeded, channel.RefundRefused:
		if err := s.note(ctx, r, r.State, r.Abnormal, standing, standing.Reason); err != nil {
			return Progress{}, err
		}
		events, err := s.report(ctx, acct, standing)
		return Progress{State: r.State, Asks: true, Events: events}, err
	case channel.RefundPending:
		return Progress{State: Pending, Asks: true}, s.note(ctx, r, Pending, false, standing, "")
	case channel.RefundStuck:
		return Progress{State: Unknown, Asks: true}, s.stuck(ctx, r, standing)
	default:
		return s.unknown(ctx, r, "the channel took it and does not know it")
	}
}

// report takes the channel's word through the one entry and gives the events that it holds.
func (s *Service) report(ctx context.Context, acct tenant.Account, standing channel.RefundStanding) (events []int64, err error) {
	results, err := s.entry.Answered(ctx, acct, standing.Body, s.now())
	if err != nil {
		return nil, fmt.Errorf("store what the channel says of a refund: %w", err)
	}
	for _, result := range results {
		if result.State == payment.Received {
			events = append(events, result.EventID)
		}
	}
	return events, nil
}

// note writes down what the channel answered. It moves only a refund that is open.
func (s *Service) note(ctx context.Context, r Refund, state State, abnormal bool, standing channel.RefundStanding, why string) error {
	now := s.now()
	if _, err := s.pool.Exec(ctx, noteSQL, r.ID, state, abnormal, why, standing.State, now, standing.RefundID, gaveBack(standing.Fee), now.Add(unknownAlertAfter)); err != nil {
		return fmt.Errorf("write down what the channel says of refund %s: %w", r.OutRefundNo, err)
	}
	return nil
}

// Unknown records that it is not known what became of a call: whoever made it is gone.
func (s *Service) Unknown(ctx context.Context, refundID int64) (Progress, error) {
	r, err := one(ctx, s.pool, "r.id = $1", refundID)
	if err != nil || r.State.Ended() || r.Calls == 0 {
		return Progress{State: r.State, Asks: r.Asks}, err
	}
	return s.unknown(ctx, r, "the call did not come back")
}

func (s *Service) unknown(ctx context.Context, r Refund, why string) (Progress, error) {
	s.log.Warn("what became of a refund is unknown; the channel will be asked", zap.String("tenant", r.TenantID), zap.String("refund", r.OutRefundNo), zap.String("why", why))
	now := s.now()
	_, err := s.pool.Exec(ctx, unknownSQL, r.ID, why, now, now.Add(unknownAlertAfter))
	if err != nil {
		return Progress{}, fmt.Errorf("write down that refund %s is unknown: %w", r.OutRefundNo, err)
	}
	return Progress{State: Unknown, Asks: true}, nil
}

//go:embed sql/unknown.sql
var unknownSQL string

// stuck writes down that the channel waits for a person, and tells people the first time.
func (s *Service) stuck(ctx context.Context, r Refund, standing channel.RefundStanding) error {
	var v payment.Verdict
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		v = payment.Verdict{}
		locked, err := lock(ctx, tx, r.ID)
		if err != nil || locked.State.Ended() || locked.Abnormal {
			return err
		}
		v, err = books{tx: tx, now: s.now()}.abnormal(ctx, locked)
		return err
	})
	if err != nil {
		return fmt.Errorf("write down that refund %s is stuck: %w", r.OutRefundNo, err)
	}
	if v.State != "" {
		s.tell(r, v)
	}
	return s.note(ctx, r, Unknown, true, standing, "the channel is stuck with it: a person must act in its console")
}

// fail ends a refund that the channel refused: nothing was paid back. Where somebody else has called since, the refusal says
// nothing of that call, and the refund stays open.
func (s *Service) fail(ctx context.Context, r Refund, no *refusal) (Progress, error) {
	var v payment.Verdict
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		v = payment.Verdict{}
		if err := lockMoney(ctx, tx, r.PaymentID, r.EventID); err != nil {
			return err
		}
		locked, err := lock(ctx, tx, r.ID)
		if err != nil || locked.State.Ended() || locked.Calls != no.calls {
			r = locked
			return err
		}
		v, err = books{tx: tx, now: s.now()}.release(ctx, locked, no.why)
		return err
	})
	if err != nil {
		return Progress{}, fmt.Errorf("end refund %s: %w", r.OutRefundNo, err)
	}
	if v.State == "" {
		return Progress{State: r.State, Asks: r.Asks}, nil // an event or another call was faster
	}
	s.tell(r, v)
	return Progress{State: Failed, Asks: true}, nil
}

// acquirer opens a refund's account for calls.
func (s *Service) acquirer(ctx context.Context, r Refund) (tenant.Account, channel.Acquirer, error) {
	acct, err := s.accounts.ByID(ctx, r.AccountID)
	if err != nil {
		return acct, nil, err
	}
	a, ok := acct.Account.(channel.Acquirer)
	if !ok {
		return acct, nil, fmt.Errorf("account %s/%s: %w", r.Channel, r.Account, channel.ErrUnsupported)
	}
	return acct, a, nil
}
