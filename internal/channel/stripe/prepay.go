package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// The methods of an order. What Stripe calls payment methods (cards, wallets, bank debits) the payer chooses among those
// that are switched on in Stripe's Dashboard.
const (
	// MethodCard is a PaymentIntent for the shop's own page: channel_data {payment_intent, client_secret}.
	MethodCard = "card"
	// MethodCheckout is a page of Stripe's: channel_data {session, url}. It needs a return URL.
	MethodCheckout = "checkout"
)

// keysLive is how long an idempotency key surely keeps its answer: Stripe says at least 24 hours.
const keysLive = 23 * time.Hour

// A Checkout session ends 30 minutes to 24 hours after it was made; without a time it is 24 hours. A minute is left for the
// way to Stripe.
const (
	sessionAtLeast = 31 * time.Minute
	sessionAtMost  = 24*time.Hour - time.Minute
)

// Prepay implements [channel.Acquirer].
func (a *account) Prepay(ctx context.Context, o channel.Order) (channel.Prepaid, error) {
	value, err := toStripe(o.Amount, o.Currency)
	if err != nil {
		return channel.Prepaid{}, err
	}
	if o.Method != "" && o.Method != MethodCard && o.Method != MethodCheckout {
		return channel.Prepaid{}, fmt.Errorf("the method %q of Stripe (there are %s and %s): %w", o.Method, MethodCard, MethodCheckout, channel.ErrUnsupported)
	}
	if o.Method == MethodCheckout && o.ReturnURL == "" {
		return channel.Prepaid{}, &channel.Rejection{Code: "return_url_missing", Detail: "a Checkout session needs the URL that the payer comes back to"}
	}
	if o.Reference != "" {
		return a.announced(ctx, o)
	}
	if a.now().Sub(o.CreatedAt) > keysLive {
		// The key of an earlier call may be forgotten, and what that call made would be made again.
		found, err := a.earlier(ctx, o)
		if err != nil {
			return channel.Prepaid{}, err
		}
		if prepaid, payable, err := a.payable(ctx, found, o); payable || err != nil {
			return prepaid, err
		}
	}
	prepaid, err := a.announce(ctx, o, value, "prepay")
	switch {
	case idempotencyClash(err):
		// An earlier call said something else, such as a time of expiry that is too near by now. What it made is the order's.
		prepaid, _, err = a.announcedBefore(ctx, o, err)
	case keptFailure(err):
		// For a day Stripe repeats this failure. Whatever it left behind was never shown to a payer, and will not be paid, so
		// the order may be announced once more: under a second key, which is as firm as the first while that is kept. Money
		// is never moved so.
		var known bool
		if prepaid, known, err = a.announcedBefore(ctx, o, nil); err == nil && !known {
			return a.announce(ctx, o, value, "prepay-again")
		}
	}
	return prepaid, err
}

// announce makes the order's object at Stripe, once: the key is the order's number.
func (a *account) announce(ctx context.Context, o channel.Order, value int64, matter string) (channel.Prepaid, error) {
	if o.Method != MethodCheckout {
		p, _, err := made[intent](ctx, a.api, "/v1/payment_intents", a.intentForm(o, value), key(matter, o.OutTradeNo))
		if err != nil {
			return channel.Prepaid{}, err
		}
		return intentData(p)
	}
	s, _, err := made[session](ctx, a.api, "/v1/checkout/sessions", a.sessionForm(o, value), key(matter, MethodCheckout, o.OutTradeNo))
	if err != nil {
		return channel.Prepaid{}, err
	}
	return sessionData(s)
}

func (a *account) intentForm(o channel.Order, value int64) url.Values {
	form := url.Values{
		"amount":                             {strconv.FormatInt(value, 10)},
		"currency":                           {strings.ToLower(o.Currency)},
		"automatic_payment_methods[enabled]": {"true"},
		"metadata[" + metaOrder + "]":        {o.OutTradeNo},
	}
	if o.Description != "" {
		form.Set("description", o.Description)
	}
	if o.Shared {
		form.Set("transfer_group", o.OutTradeNo)
	}
	return form
}

func (a *account) sessionForm(o channel.Order, value int64) url.Values {
	name := o.Description
	if name == "" {
		name = o.OutTradeNo
	}
	form := url.Values{
		"mode":                                             {"payment"},
		"client_reference_id":                              {o.OutTradeNo},
		"success_url":                                      {o.ReturnURL},
		"line_items[0][price_data][currency]":              {strings.ToLower(o.Currency)},
		"line_items[0][price_data][unit_amount]":           {strconv.FormatInt(value, 10)},
		"line_items[0][price_data][product_data][name]":    {name},
		"line_items[0][quantity]":                          {"1"},
		"metadata[" + metaOrder + "]":                      {o.OutTradeNo},
		"payment_intent_data[metadata][" + metaOrder + "]": {o.OutTradeNo},
	}
	if o.Shared {
		form.Set("payment_intent_data[transfer_group]", o.OutTradeNo)
	}
	// Outside of Stripe's bounds the session is closed by us, like every order that expires.
	if left := o.ExpiresAt.Sub(a.now()); left >= sessionAtLeast && left <= sessionAtMost {
		form.Set("expires_at", strconv.FormatInt(o.ExpiresAt.Unix(), 10))
	}
	return form
}

func intentData(p intent) (channel.Prepaid, error) {
	data, err := json.Marshal(map[string]string{"payment_intent": p.ID, "client_secret": p.ClientSecret})
	return channel.Prepaid{Data: data, Reference: p.ID}, err
}

func sessionData(s session) (channel.Prepaid, error) {
	data, err := json.Marshal(map[string]string{"session": s.ID, "url": s.URL})
	return channel.Prepaid{Data: data, Reference: s.ID}, err
}

// announced gives the data of an order whose object is known.
func (a *account) announced(ctx context.Context, o channel.Order) (channel.Prepaid, error) {
	if isSession(o.Reference) {
		s, _, err := read[session](ctx, a.api, "/v1/checkout/sessions/"+url.PathEscape(o.Reference), nil)
		if err != nil {
			return channel.Prepaid{}, err
		}
		return prepaidBySession(s, o)
	}
	p, _, err := read[intent](ctx, a.api, "/v1/payment_intents/"+url.PathEscape(o.Reference), nil)
	if err != nil {
		return channel.Prepaid{}, err
	}
	prepaid, _, err := prepaidByIntent(p, o)
	return prepaid, err
}

// announcedBefore finds what an earlier call made under the order's number; where there is nothing, none is the error.
func (a *account) announcedBefore(ctx context.Context, o channel.Order, none error) (prepaid channel.Prepaid, known bool, err error) {
	m, err := a.look(ctx, o)
	if err != nil {
		return channel.Prepaid{}, false, err
	}
	for _, s := range m.sessions {
		if s.Status == sessionOpen {
			prepaid, err := prepaidBySession(s.session, o)
			return prepaid, true, err
		}
	}
	if prepaid, known, err = a.payable(ctx, m.intents, o); known || err != nil {
		return prepaid, true, err
	}
	return channel.Prepaid{}, false, none
}

// payable gives the first of what was found that can still be paid. Search may be behind: each is read as it is now.
func (a *account) payable(ctx context.Context, found []foundIntent, o channel.Order) (prepaid channel.Prepaid, payable bool, err error) {
	for _, each := range found {
		current, _, err := a.readIntent(ctx, each.ID)
		if err != nil {
			return channel.Prepaid{}, false, err
		}
		if prepaid, payable, err := prepaidByIntent(current, o); payable || err != nil {
			return prepaid, payable, err
		}
	}
	return channel.Prepaid{}, false, nil
}

// errPaying says that the payer is through and the money is not: neither an announcement nor a refusal of one.
var errPaying = errors.New("the payment of this order is under way at Stripe")

// prepaidByIntent gives the data of a PaymentIntent that can still be paid on the shop's page. One that is canceled, or asks
// for another amount, is a definite no: another of the same number must not be made beside it. Nor beside one that is paid, or
// being paid, but that is no refusal: the order is asked about. Canceled ones are passed over where several are looked through.
func prepaidByIntent(p intent, o channel.Order) (prepaid channel.Prepaid, payable bool, err error) {
	value, err := toStripe(o.Amount, o.Currency)
	switch {
	case err != nil:
		return channel.Prepaid{}, false, err
	case p.Metadata[metaOrder] != o.OutTradeNo, p.Amount != value || upper(p.Currency) != o.Currency:
		return channel.Prepaid{}, false, &channel.Rejection{Code: "order_differs", Detail: "Stripe knows this number for another order"}
	case p.Status == intentSucceeded:
		return channel.Prepaid{}, false, channel.ErrPaid
	case p.Status == intentProcessing:
		return channel.Prepaid{}, false, errPaying
	case p.Status == intentCanceled && o.Reference != "":
		return channel.Prepaid{}, false, &channel.Rejection{Code: "order_closed", Detail: "Stripe says that this order is canceled"}
	case p.Status == intentCanceled, o.Method == MethodCheckout:
		return channel.Prepaid{}, false, nil
	}
	prepaid, err = intentData(p)
	return prepaid, true, err
}

func prepaidBySession(s session, o channel.Order) (channel.Prepaid, error) {
	value, err := toStripe(o.Amount, o.Currency)
	switch {
	case err != nil:
		return channel.Prepaid{}, err
	case s.order() != o.OutTradeNo, s.AmountTotal == nil || *s.AmountTotal != value || upper(s.Currency) != o.Currency:
		return channel.Prepaid{}, &channel.Rejection{Code: "order_differs", Detail: "Stripe knows this number for another order"}
	case s.PaymentStatus == sessionPaid:
		return channel.Prepaid{}, channel.ErrPaid
	case s.Status == sessionComplete:
		return channel.Prepaid{}, errPaying
	case s.Status != sessionOpen:
		return channel.Prepaid{}, &channel.Rejection{Code: "order_closed", Detail: "Stripe says that this session is over"}
	}
	return sessionData(s)
}

func isSession(reference string) bool { return strings.HasPrefix(reference, "cs_") }
