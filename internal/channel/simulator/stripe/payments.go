package stripe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The calls. Each runs under the lock and gives an object or an error object.

func (s *Simulator) createIntent(c call) (any, *trouble) {
	amount, currency, t := money(c, "amount", "currency")
	if t != nil {
		return nil, t
	}
	o := &offer{
		intentID: "pi_3" + word(23), amount: amount, currency: currency, status: "requires_payment_method",
		metadata: c.metadata("metadata"), text: c.form.Get("description"), group: c.form.Get("transfer_group"), created: s.now(),
	}
	o.secret = o.intentID + "_secret_" + word(24)
	s.offers = append(s.offers, o)
	s.tell("payment_intent.created", o.intentObject())
	return o.intentObject(), nil
}

func (s *Simulator) getIntent(c call) (any, *trouble) {
	if o := s.offerOf(c.id); o != nil && o.intentID == c.id {
		return o.intentObject(), nil
	}
	return nil, missing("payment_intent", c.id)
}

func (s *Simulator) listIntents(c call) (any, *trouble) {
	var all []any
	for _, o := range s.offers {
		if o.intentID != "" && within(c, o.created) {
			all = append(all, o.intentObject())
		}
	}
	return list(c, "/v1/payment_intents", all)
}

var searchClause = regexp.MustCompile(`^metadata\[["'](\w+)["']\]:["'](.*)["']$`)

func searched(query string) (name, value string) {
	found := searchClause.FindStringSubmatch(query)
	if found == nil {
		return "", ""
	}
	return found[1], strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`).Replace(found[2])
}

func (s *Simulator) searchIntents(c call) (any, *trouble) {
	if s.quirks.NoSearch {
		return nil, invalid("", "The search feature is temporarily unavailable in your region. Please check back later.")
	}
	name, value := searched(c.form.Get("query"))
	if name == "" {
		return nil, invalid("", "We were unable to parse your search query.")
	}
	var found []any
	for _, o := range slices.Backward(s.offers) {
		if o.intentID != "" && !s.quirks.SearchLags && strings.EqualFold(o.metadata[name], value) {
			found = append(found, o.intentObject())
		}
	}
	result := page("/v1/payment_intents/search", found, false)
	result["object"], result["next_page"] = "search_result", nil
	return result, nil
}

func (s *Simulator) cancelIntent(c call) (any, *trouble) {
	o := s.offerOf(c.id)
	if o == nil || o.intentID != c.id {
		return nil, missing("payment_intent", c.id)
	}
	switch o.status {
	case "succeeded", "canceled", "processing":
		t := invalid("payment_intent_unexpected_state", "You cannot cancel this PaymentIntent because it has a status of "+o.status+
			". Only a PaymentIntent with one of the following statuses may be canceled: requires_payment_method, requires_capture, requires_confirmation, requires_action, processing.")
		t.body["payment_intent"] = o.intentObject()
		return nil, t
	}
	if o.session != nil {
		return nil, invalid("payment_intent_unexpected_state", "You cannot cancel this PaymentIntent because it was created by a Checkout Session. Expire the Checkout Session instead.")
	}
	o.status = "canceled"
	s.tell("payment_intent.canceled", o.intentObject())
	return o.intentObject(), nil
}

func (s *Simulator) createSession(c call) (any, *trouble) {
	if c.form.Get("mode") != "payment" || c.form.Get("success_url") == "" || c.form.Get("line_items[0][quantity]") != "1" {
		return nil, invalid("parameter_missing", "Missing required param: mode, success_url or line_items.")
	}
	amount, currency, t := money(c, "line_items[0][price_data][unit_amount]", "line_items[0][price_data][currency]")
	if t != nil {
		return nil, t
	}
	now := s.now()
	expires := now.Add(24 * time.Hour)
	if told := c.form.Get("expires_at"); told != "" {
		at, err := strconv.ParseInt(told, 10, 64)
		if err != nil || at < now.Add(30*time.Minute).Unix() || at > now.Add(24*time.Hour).Unix() {
			return nil, invalid("", "The `expires_at` timestamp must be between 30 minutes and 24 hours from Checkout Session creation.")
		}
		expires = time.Unix(at, 0)
	}
	id := "cs_test_" + word(58)
	o := &offer{
		amount: amount, currency: currency, status: "requires_payment_method", metadata: c.metadata("payment_intent_data[metadata]"),
		text: c.form.Get("line_items[0][price_data][product_data][name]"), group: c.form.Get("payment_intent_data[transfer_group]"), created: now,
		session: &session{
			id: id, url: "https://checkout.stripe.com/c/pay/" + id, reference: c.form.Get("client_reference_id"), successURL: c.form.Get("success_url"),
			status: "open", paid: "unpaid", metadata: c.metadata("metadata"), expires: expires,
		},
	}
	s.offers = append(s.offers, o)
	return o.sessionObject(), nil
}

func (s *Simulator) getSession(c call) (any, *trouble) {
	if o := s.offerOf(c.id); o != nil && o.session != nil && o.session.id == c.id {
		return o.sessionObject(), nil
	}
	return nil, missing("checkout.session", c.id)
}

func (s *Simulator) listSessions(c call) (any, *trouble) {
	var all []any
	for _, o := range s.offers {
		of, status := c.form.Get("payment_intent"), c.form.Get("status")
		if o.session != nil && within(c, o.created) && (of == "" || of == o.intentID) && (status == "" || status == o.session.status) {
			all = append(all, o.sessionObject())
		}
	}
	return list(c, "/v1/checkout/sessions", all)
}

func (s *Simulator) expireSession(c call) (any, *trouble) {
	o := s.offerOf(c.id)
	if o == nil || o.session == nil {
		return nil, missing("checkout.session", c.id)
	}
	if o.session.status != "open" {
		return nil, invalid("", "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of `"+o.session.status+"`.")
	}
	s.expired(o)
	return o.sessionObject(), nil
}

// expired ends a session, with the PaymentIntent that it may have made.
func (s *Simulator) expired(o *offer) {
	o.session.status = "expired"
	s.tell("checkout.session.expired", o.sessionObject())
	if o.intentID != "" {
		o.status = "canceled"
		s.tell("payment_intent.canceled", o.intentObject())
	}
}
