package stripe

import (
	"context"
	"fmt"
	"net/url"

	"github.com/paylatch/paylatch/internal/channel"
)

// Query implements [channel.Acquirer].
func (a *account) Query(ctx context.Context, o channel.Order) (channel.Standing, error) {
	switch {
	case o.Reference == "":
		return a.queryByNumber(ctx, o)
	case isSession(o.Reference):
		s, raw, err := a.readSession(ctx, o.Reference)
		if unknownObject(err) {
			return channel.Standing{State: channel.OrderUnknown}, nil
		}
		if err != nil {
			return channel.Standing{}, err
		}
		return ofOrder(s.order(), o, standingOfSession(s, raw))
	}
	p, raw, err := a.readIntent(ctx, o.Reference)
	if unknownObject(err) {
		return channel.Standing{State: channel.OrderUnknown}, nil
	}
	if err != nil {
		return channel.Standing{}, err
	}
	return ofOrder(p.Metadata[metaOrder], o, standingOfIntent(p, raw))
}

// readIntent brings the fee along.
func (a *account) readIntent(ctx context.Context, id string) (intent, []byte, error) {
	return read[intent](ctx, a.api, "/v1/payment_intents/"+url.PathEscape(id), url.Values{"expand[]": {"latest_charge.balance_transaction"}})
}

// AskFee implements [channel.FeeTeller].
func (a *account) AskFee(ctx context.Context, transactionID string) ([]byte, error) {
	if subjectOf(transactionID) == objectCharge {
		_, raw, err := read[charge](ctx, a.api, "/v1/charges/"+url.PathEscape(transactionID), url.Values{"expand[]": {"balance_transaction"}})
		return raw, err
	}
	_, raw, err := a.readIntent(ctx, transactionID)
	return raw, err
}

func (a *account) readSession(ctx context.Context, id string) (session, []byte, error) {
	query := url.Values{"expand[]": {"payment_intent.latest_charge.balance_transaction"}}
	return read[session](ctx, a.api, "/v1/checkout/sessions/"+url.PathEscape(id), query)
}

// queryByNumber asks for an order whose reference never came: the best of what there is counts, and one that is paid most.
func (a *account) queryByNumber(ctx context.Context, o channel.Order) (channel.Standing, error) {
	m, err := a.look(ctx, o)
	if err != nil {
		return channel.Standing{}, err
	}
	best := channel.Standing{State: channel.OrderUnknown}
	better := func(s channel.Standing) {
		rank := map[channel.OrderState]int{channel.OrderUnknown: 0, channel.OrderClosed: 1, channel.OrderOpen: 2, channel.OrderPaid: 3}
		if rank[s.State] > rank[best.State] {
			best = s
		}
	}
	for _, p := range m.intents {
		// What was found may be old (Search lags) and bears no fee: its own answer counts.
		current, raw, err := a.readIntent(ctx, p.ID)
		if err != nil {
			return channel.Standing{}, err
		}
		better(standingOfIntent(current, raw))
	}
	for _, s := range m.sessions {
		current, raw, err := a.readSession(ctx, s.ID)
		if err != nil {
			return channel.Standing{}, err
		}
		better(standingOfSession(current, raw))
	}
	return best, nil
}

// ofOrder keeps another order's payment from being taken for this one's.
func ofOrder(number string, o channel.Order, s channel.Standing) (channel.Standing, error) {
	if number != o.OutTradeNo {
		return channel.Standing{}, fmt.Errorf("%s at Stripe is of the order %s, not of %s", o.Reference, quoted(number), o.OutTradeNo)
	}
	return s, nil
}

func standingOfIntent(p intent, raw []byte) channel.Standing {
	switch p.Status {
	case intentSucceeded:
		return channel.Standing{State: channel.OrderPaid, Body: raw}
	case intentCanceled:
		return channel.Standing{State: channel.OrderClosed}
	}
	return channel.Standing{State: channel.OrderOpen}
}

// standingOfSession: a complete session that is not paid waits for its PaymentIntent, which may take days. If that fails,
// nobody can pay it again: the page is gone.
func standingOfSession(s session, raw []byte) channel.Standing {
	switch {
	case s.PaymentStatus == sessionPaid:
		return channel.Standing{State: channel.OrderPaid, Body: raw}
	case s.Status == sessionExpired:
		return channel.Standing{State: channel.OrderClosed}
	case s.Status == sessionComplete:
		var p intent
		if s.PaymentIntent.expand(&p) && (p.Status == intentNeedsMeans || p.Status == intentCanceled) {
			return channel.Standing{State: channel.OrderClosed}
		}
	}
	return channel.Standing{State: channel.OrderOpen}
}

// Close implements [channel.Acquirer].
func (a *account) Close(ctx context.Context, o channel.Order) error {
	switch {
	case isSession(o.Reference):
		return a.expire(ctx, o.Reference)
	case o.Reference != "":
		return a.cancel(ctx, o.Reference)
	}
	m, err := a.look(ctx, o)
	if err != nil {
		return err
	}
	for _, s := range m.sessions {
		if err := a.expire(ctx, s.ID); err != nil {
			return err
		}
	}
	for _, p := range m.intents {
		if err := a.cancel(ctx, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// cancel ends a PaymentIntent. It carries no idempotency key: it can happen only once, and a refusal while the payment is
// being processed must not be remembered for a day.
func (a *account) cancel(ctx context.Context, id string) error {
	_, err := a.api.post(ctx, "/v1/payment_intents/"+url.PathEscape(id)+"/cancel", nil, "")
	if err == nil || unknownObject(err) {
		return nil
	}
	if !channel.Definite(err) {
		return err
	}
	p, _, queryErr := a.readIntent(ctx, id)
	if queryErr != nil {
		return queryErr
	}
	switch p.Status {
	case intentCanceled:
		return nil
	case intentSucceeded:
		return channel.ErrPaid
	case intentProcessing:
		return fmt.Errorf("the payment %s is being processed: it can be neither closed nor called paid yet", id)
	}
	// The PaymentIntent of a Checkout session is ended with its session.
	sessions, _, listErr := pick(ctx, a.api, "/v1/checkout/sessions", url.Values{"payment_intent": {id}}, func(session) bool { return true })
	if listErr != nil {
		return listErr
	}
	if len(sessions) == 0 {
		return err
	}
	for _, s := range sessions {
		if err := a.expire(ctx, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// expire ends a Checkout session, and with it the PaymentIntent that it made.
func (a *account) expire(ctx context.Context, id string) error {
	_, err := a.api.post(ctx, "/v1/checkout/sessions/"+url.PathEscape(id)+"/expire", nil, "")
	if err == nil || unknownObject(err) {
		return nil
	}
	if !channel.Definite(err) {
		return err
	}
	s, raw, queryErr := a.readSession(ctx, id)
	if queryErr != nil {
		return queryErr
	}
	switch standingOfSession(s, raw).State {
	case channel.OrderClosed:
		return nil
	case channel.OrderPaid:
		return channel.ErrPaid
	}
	return fmt.Errorf("the session %s waits for its payment: it can be neither closed nor called paid yet", id)
}
