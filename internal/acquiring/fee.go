package acquiring

import (
	"context"
	"fmt"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

// AskFee asks the channel for the fee that an event hints at. What the channel says enters by the one door; AskFee writes down
// that it was asked, and gives the events out of the answer that wait to be booked. A channel that cannot be asked, or does not
// know the payment, has no more to tell: the bill will. Errors: [payment.ErrEventNotFound], or what kept the channel from
// answering: ask again.
func (s *Service) AskFee(ctx context.Context, eventID int64) (events []int64, err error) {
	ev, err := payment.ReadEvent(ctx, s.pool, eventID)
	if err != nil || ev.State != payment.Received {
		return nil, err
	}
	// Asked again, it gives the same events again: whoever asked before may have died before it could book them.
	if events, err = s.askFee(ctx, ev); err != nil {
		return nil, fmt.Errorf("ask about event %d: %w", eventID, err)
	}
	if _, err := s.pool.Exec(ctx, "UPDATE channel_events SET asked_at = $2 WHERE id = $1 AND state = 'RECEIVED'", ev.ID, s.now()); err != nil {
		return nil, fmt.Errorf("write down that the channel was asked about event %d: %w", eventID, err)
	}
	return events, nil
}

func (s *Service) askFee(ctx context.Context, ev payment.Event) (events []int64, err error) {
	acct, err := s.accounts.ByID(ctx, ev.AccountID)
	if err != nil {
		return nil, err
	}
	teller, ok := acct.Account.(channel.FeeTeller)
	if !ok {
		return nil, nil
	}
	body, err := teller.AskFee(ctx, ev.TransactionID)
	if channel.Definite(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	results, err := s.entry.Answered(ctx, acct, body, s.now())
	if err != nil {
		return nil, fmt.Errorf("store what the channel says of a fee: %w", err)
	}
	for _, result := range results {
		if result.State == payment.Received && result.EventID != ev.ID {
			events = append(events, result.EventID)
		}
	}
	return events, nil
}
