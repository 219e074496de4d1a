package stripe

import (
	"fmt"
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
		if of := c.form.Get("payment_intent"); o.session != nil && within(c, o.created) && (of == "" || of == o.intentID) {
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

func (s *Simulator) createRefund(c call) (any, *trouble) {
	id := c.form.Get("payment_intent") + c.form.Get("charge")
	o := s.offerOf(id)
	switch {
	case o == nil:
		return nil, missing("payment_intent", id)
	case o.status != "succeeded":
		return nil, invalid("", "This PaymentIntent ("+id+") does not have a successful charge to refund.")
	case o.charge.refunded == o.amount:
		return nil, invalid("charge_already_refunded", "Charge "+o.charge.id+" has already been refunded.")
	}
	amount := o.amount - o.charge.refunded
	if told := c.form.Get("amount"); told != "" {
		asked, err := strconv.ParseInt(told, 10, 64)
		if err != nil || asked <= 0 {
			return nil, invalid("parameter_invalid_integer", "Invalid integer: "+told)
		}
		if asked > amount {
			return nil, invalid("", fmt.Sprintf("Refund amount (%d) is greater than unrefunded amount on charge (%d)", asked, amount))
		}
		amount = asked
	}
	if t := unit(amount, o.currency); t != nil {
		return nil, t
	}
	if reason := c.form.Get("reason"); reason != "" && !slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer"}, reason) {
		return nil, invalid("", "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer")
	}
	r := &refund{id: "re_3" + word(23), of: o, amount: amount, status: "succeeded", reason: c.form.Get("reason"), metadata: c.metadata("metadata"), created: s.now()}
	if s.core.Faults().Hold {
		r.status = "pending"
	}
	r.movement = s.move(r.id, "refund", "refund", -amount, 0, o.currency)
	o.charge.refunded += amount
	s.refunds = append(s.refunds, r)
	s.tell("refund.created", r.object())
	s.tell("charge.refunded", o.chargeObject())
	return r.object(), nil
}

func (s *Simulator) getRefund(c call) (any, *trouble) {
	if r := s.refundOf(c.id); r != nil {
		return r.object(), nil
	}
	return nil, missing("refund", c.id)
}

func (s *Simulator) listRefunds(c call) (any, *trouble) {
	of := c.form.Get("payment_intent") + c.form.Get("charge")
	var all []any
	for _, r := range s.refunds {
		if of == "" || r.of.intentID == of || r.of.charge.id == of {
			all = append(all, r.object())
		}
	}
	return list(c, "/v1/refunds", all)
}

func (s *Simulator) createTransfer(c call) (any, *trouble) {
	amount, currency, t := money(c, "amount", "currency")
	if t != nil {
		return nil, t
	}
	destination := c.form.Get("destination")
	o := s.offerOf(c.form.Get("source_transaction"))
	switch {
	case !strings.HasPrefix(destination, "acct_"):
		return nil, missing("destination", destination)
	case slices.Contains(s.quirks.Refuse, destination):
		return nil, invalid("insufficient_capabilities_for_transfer", "Your destination account needs to have at least one of the following capabilities enabled: transfers, crypto_transfers, legacy_payments")
	case o == nil || o.charge == nil || o.charge.status != "succeeded":
		return nil, missing("charge", c.form.Get("source_transaction"))
	case currency != o.charge.movement.currency:
		return nil, invalid("", "The currency of source_transaction's balance transaction ("+o.charge.movement.currency+") must be the same as the transfer currency ("+currency+")")
	case o.charge.shared+amount > o.amount:
		return nil, invalid("", "Transfers using this transaction as a source must not exceed the source amount.")
	}
	if o.group == "" {
		o.group = "group_" + o.intentID
	}
	o.charge.shared += amount
	made := &transfer{
		id: "tr_1" + word(23), destination: destination, group: o.group, currency: currency, text: c.form.Get("description"), of: o,
		amount: amount, metadata: c.metadata("metadata"), created: s.now(),
	}
	made.movement = s.move(made.id, "transfer", "transfer", -amount, 0, currency)
	s.transfer = append(s.transfer, made)
	s.tell("transfer.created", made.object())
	return made.object(), nil
}

func (s *Simulator) listTransfers(c call) (any, *trouble) {
	group, destination := c.form.Get("transfer_group"), c.form.Get("destination")
	var all []any
	for _, t := range s.transfer {
		if (group == "" || t.group == group) && (destination == "" || t.destination == destination) {
			all = append(all, t.object())
		}
	}
	return list(c, "/v1/transfers", all)
}

func (s *Simulator) createReversal(c call) (any, *trouble) {
	t := s.transferOf(c.id)
	if t == nil {
		return nil, missing("transfer", c.id)
	}
	amount, err := strconv.ParseInt(c.form.Get("amount"), 10, 64)
	if err != nil || amount <= 0 || amount > t.amount-t.reversed {
		return nil, invalid("", "Reversal amount is greater than unreversed amount of the transfer.")
	}
	r := &reversal{id: "trr_1" + word(23), of: t, amount: amount, metadata: c.metadata("metadata"), created: s.now()}
	r.movement = s.move(r.id, "transfer_refund", "transfer_reversal", amount, 0, t.currency)
	t.reversed += amount
	t.of.charge.shared -= amount
	t.reversals = append(t.reversals, r)
	s.tell("transfer.reversed", t.object())
	return r.object(), nil
}

func (s *Simulator) listReversals(c call) (any, *trouble) {
	t := s.transferOf(c.id)
	if t == nil {
		return nil, missing("transfer", c.id)
	}
	var all []any
	for _, r := range t.reversals {
		all = append(all, r.object())
	}
	return list(c, "/v1/transfers/"+t.id+"/reversals", all)
}

func (s *Simulator) listBalance(c call) (any, *trouble) {
	var all []any
	for _, m := range s.balance {
		if within(c, m.created) {
			all = append(all, m.object())
		}
	}
	return list(c, "/v1/balance_transactions", all)
}

func (s *Simulator) getAccount(call) (any, *trouble) {
	return object{"id": s.accountID, "object": "account", "charges_enabled": true, "payouts_enabled": true, "country": "US", "default_currency": "usd"}, nil
}

func (s *Simulator) getBalance(call) (any, *trouble) {
	return object{"object": "balance", "livemode": false, "available": []any{}, "pending": []any{}}, nil
}

func (s *Simulator) listEndpoints(c call) (any, *trouble) {
	var all []any
	if s.endpoint != "" {
		all = append(all, object{"id": "we_1" + s.accountID[6:], "object": "webhook_endpoint", "status": "enabled", "url": s.endpoint, "enabled_events": []string{"*"}, "livemode": false})
	}
	return list(c, "/v1/webhook_endpoints", all)
}

// list gives a page, newest first.
func list(c call, address string, all []any) (any, *trouble) {
	limit := 10
	if told := c.form.Get("limit"); told != "" {
		n, err := strconv.Atoi(told)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("parameter_invalid_integer", "limit is 1 to 100")
		}
		limit = n
	}
	slices.Reverse(all)
	if after := c.form.Get("starting_after"); after != "" {
		at := slices.IndexFunc(all, func(v any) bool { return v.(object)["id"] == after })
		if at < 0 {
			return nil, missing("object", after)
		}
		all = all[at+1:]
	}
	more := len(all) > limit
	return page(address, all[:min(limit, len(all))], more), nil
}

func within(c call, created time.Time) bool {
	if since, err := strconv.ParseInt(c.form.Get("created[gte]"), 10, 64); err == nil && created.Unix() < since {
		return false
	}
	if before, err := strconv.ParseInt(c.form.Get("created[lt]"), 10, 64); err == nil && created.Unix() >= before {
		return false
	}
	return true
}

// money reads an amount as Stripe takes it.
func money(c call, amountName, currencyName string) (int64, string, *trouble) {
	currency := c.form.Get(currencyName)
	if len(currency) != 3 || currency != strings.ToLower(currency) {
		return 0, "", invalid("", "Invalid currency: "+currency)
	}
	amount, err := strconv.ParseInt(c.form.Get(amountName), 10, 64)
	if err != nil || amount < 1 {
		return 0, "", invalid("parameter_invalid_integer", "Invalid positive integer")
	}
	return amount, currency, unit(amount, currency)
}

// unit refuses amounts that Stripe cannot charge in a currency.
func unit(amount int64, currency string) *trouble {
	switch currency {
	case "isk", "ugx":
		if amount%100 != 0 {
			return invalid("invalid_charge_amount_no_decimal_compatible", "Invalid amount. Currency "+strings.ToUpper(currency)+
				" has become effectively zero-decimal and charged amounts must be evenly divisible by 100.")
		}
	case "bhd", "jod", "kwd", "omr", "tnd":
		if amount%10 != 0 {
			return invalid("", "Invalid amount: three-decimal amounts must end in 0.")
		}
	}
	return nil
}
