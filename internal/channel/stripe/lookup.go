package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// searchLag is how far Search may be behind: under a minute as a rule, an hour in outages (docs.stripe.com/search).
const searchLag = time.Hour

// sessionsLive is how long a Checkout session can be open.
const sessionsLive = 24 * time.Hour

type foundIntent struct {
	intent
	raw json.RawMessage
}

type foundSession struct {
	session
	raw json.RawMessage
}

// matter is all that Stripe has under one order's number.
type matter struct {
	intents  []foundIntent
	sessions []foundSession // only of the method checkout
}

// look finds what was announced under a number, for an order whose reference never came back. What it does not find is not
// there: Search knows all that is older than its lag, and the list of the last hour is consistent.
func (a *account) look(ctx context.Context, o channel.Order) (matter, error) {
	intents, err := a.earlier(ctx, o)
	if err == nil && len(intents) == 0 {
		intents, err = a.listIntents(ctx, o.OutTradeNo, a.sinceMade(o, searchLag))
	}
	if err != nil {
		return matter{}, err
	}
	m := matter{intents: intents}
	if o.Method != MethodCheckout {
		return m, nil
	}
	m.sessions, err = a.listSessions(ctx, o.OutTradeNo, a.sinceMade(o, sessionsLive+clockSlack))
	return m, err
}

// clockSlack is how far Stripe's clock may be from ours.
const clockSlack = time.Minute

// sinceMade is where a list is begun: as long ago as told, but not before the order was made. Lists are bounded, and a busy
// shop's own orders must not fill them.
func (a *account) sinceMade(o channel.Order, ago time.Duration) time.Time {
	since, made := a.now().Add(-ago), o.CreatedAt.Add(-clockSlack)
	if made.After(since) {
		return made
	}
	return since
}

// earlier finds what was announced some time ago. Merchants in India have no Search: there the list goes back as far as the
// order does.
func (a *account) earlier(ctx context.Context, o channel.Order) ([]foundIntent, error) {
	found, err := a.searchIntents(ctx, o.OutTradeNo)
	if !channel.Definite(err) {
		return found, err
	}
	since := o.CreatedAt
	if since.IsZero() {
		since = a.now().Add(-sessionsLive)
	}
	return a.listIntents(ctx, o.OutTradeNo, since.Add(-clockSlack))
}

// searchIntents asks Search, whose match heeds no case: ours does.
func (a *account) searchIntents(ctx context.Context, outTradeNo string) ([]foundIntent, error) {
	query := url.Values{
		"query": {fmt.Sprintf(`metadata["%s"]:"%s"`, metaOrder, escaped(outTradeNo))},
		"limit": {fmt.Sprint(pageSize)},
	}
	p, _, err := read[page](ctx, a.api, "/v1/payment_intents/search", query)
	if err != nil {
		return nil, err
	}
	var found []foundIntent
	for _, raw := range p.Data {
		var each intent
		if err := json.Unmarshal(raw, &each); err != nil {
			return nil, fmt.Errorf("read what Search found: %w", err)
		}
		if each.Metadata[metaOrder] == outTradeNo {
			found = append(found, foundIntent{each, raw})
		}
	}
	return found, nil
}

func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
}

func (a *account) listIntents(ctx context.Context, outTradeNo string, since time.Time) ([]foundIntent, error) {
	list, raws, err := pick(ctx, a.api, "/v1/payment_intents", createdSince(since), func(p intent) bool {
		return p.Metadata[metaOrder] == outTradeNo
	})
	var found []foundIntent
	for i, p := range list {
		found = append(found, foundIntent{p, raws[i]})
	}
	return found, err
}

// listSessions finds the sessions that are open still. Sessions cannot be searched for, and in a busy shop nearly all of a day are
// over: those are known by their PaymentIntents, which bear the number too, or nobody has paid and nobody can.
func (a *account) listSessions(ctx context.Context, outTradeNo string, since time.Time) ([]foundSession, error) {
	query := createdSince(since)
	query.Set("status", sessionOpen)
	list, raws, err := pick(ctx, a.api, "/v1/checkout/sessions", query, func(s session) bool { return s.order() == outTradeNo })
	var found []foundSession
	for i, s := range list {
		found = append(found, foundSession{s, raws[i]})
	}
	return found, err
}

func createdSince(t time.Time) url.Values {
	return url.Values{"created[gte]": {fmt.Sprint(t.Unix())}}
}

// paymentOf gives the PaymentIntent of a payment (or its charge, where it has none), by the best name that is known.
func (a *account) paymentOf(ctx context.Context, transactionID, reference, outTradeNo string) (string, error) {
	switch {
	case transactionID != "":
		return transactionID, nil
	case isSession(reference):
		s, _, err := read[session](ctx, a.api, "/v1/checkout/sessions/"+url.PathEscape(reference), nil)
		if err != nil {
			return "", err
		}
		if s.PaymentIntent.ID == "" {
			return "", &channel.Rejection{Code: "payment_missing", Detail: "nobody paid through this session"}
		}
		return s.PaymentIntent.ID, nil
	case reference != "":
		return reference, nil
	}
	found, err := a.searchIntents(ctx, outTradeNo)
	if err != nil {
		return "", err
	}
	for _, p := range found {
		if p.Status == intentSucceeded {
			return p.ID, nil
		}
	}
	return "", fmt.Errorf("the payment of order %s is not found at Stripe yet", outTradeNo)
}
