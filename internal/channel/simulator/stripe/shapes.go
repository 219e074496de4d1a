package stripe

import (
	"maps"
	"strings"
	"time"
)

// object is a JSON object in Stripe's shape.
type object = map[string]any

// offer is what a payer can pay: a PaymentIntent, or a Checkout session that makes one when it is paid.
type offer struct {
	intentID  string // empty while a session has none
	secret    string
	session   *session
	amount    int64
	currency  string
	status    string // of the PaymentIntent
	metadata  map[string]string
	text      string
	group     string
	created   time.Time
	charge    *charge
	lastError object
}

type session struct {
	id, url, reference, successURL string
	status, paid                   string
	metadata                       map[string]string
	expires                        time.Time
}

type charge struct {
	id       string
	status   string // pending, succeeded, failed
	refunded int64
	shared   int64
	created  time.Time
	movement *movement
}

type refund struct {
	id       string
	of       *offer
	amount   int64
	status   string
	reason   string
	failure  string
	metadata map[string]string
	created  time.Time
	movement *movement
}

type transfer struct {
	id, destination, group, currency, text string
	of                                     *offer
	amount, reversed                       int64
	metadata                               map[string]string
	reversals                              []*reversal
	created                                time.Time
	movement                               *movement
}

type reversal struct {
	id       string
	of       *transfer
	amount   int64
	metadata map[string]string
	created  time.Time
	movement *movement
}

// movement is a balance transaction.
type movement struct {
	id, source, currency, kind, category, text string
	amount, fee                                int64
	created                                    time.Time
}

func (o *offer) order() string {
	if o.metadata["out_trade_no"] != "" {
		return o.metadata["out_trade_no"]
	}
	if o.session != nil {
		return o.session.reference
	}
	return ""
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func (o *offer) intentObject() object {
	received := int64(0)
	if o.status == "succeeded" {
		received = o.amount
	}
	var latest any
	if o.charge != nil {
		latest = o.charge.id
	}
	var lastError any
	if o.lastError != nil {
		lastError = o.lastError
	}
	return object{
		"id": o.intentID, "object": "payment_intent", "amount": o.amount, "amount_capturable": 0, "amount_details": object{"tip": object{}},
		"amount_received": received, "application": nil, "application_fee_amount": nil,
		"automatic_payment_methods": object{"allow_redirects": "always", "enabled": true}, "canceled_at": nil, "cancellation_reason": nil,
		"capture_method": "automatic_async", "client_secret": o.secret, "confirmation_method": "automatic", "created": o.created.Unix(),
		"currency": o.currency, "customer": nil, "description": orNull(o.text), "last_payment_error": lastError, "latest_charge": latest,
		"livemode": false, "metadata": maps.Clone(o.metadata), "next_action": nil, "on_behalf_of": nil, "payment_method": nil,
		"payment_method_options": object{"card": object{"request_three_d_secure": "automatic"}}, "payment_method_types": []string{"card", "link"},
		"processing": nil, "receipt_email": nil, "review": nil, "setup_future_usage": nil, "shipping": nil, "source": nil,
		"statement_descriptor": nil, "statement_descriptor_suffix": nil, "status": o.status, "transfer_data": nil, "transfer_group": orNull(o.group),
	}
}

func (o *offer) sessionObject() object {
	s := o.session
	address := any(nil)
	if s.status == "open" {
		address = s.url
	}
	return object{
		"id": s.id, "object": "checkout.session", "after_expiration": nil, "allow_promotion_codes": nil, "amount_subtotal": o.amount,
		"amount_total": o.amount, "automatic_tax": object{"enabled": false, "status": nil}, "cancel_url": nil,
		"client_reference_id": orNull(s.reference), "created": o.created.Unix(), "currency": o.currency, "customer": nil,
		"expires_at": s.expires.Unix(), "livemode": false, "locale": nil, "metadata": maps.Clone(s.metadata), "mode": "payment",
		"payment_intent": orNull(o.intentID), "payment_link": nil, "payment_method_types": []string{"card"}, "payment_status": s.paid,
		"setup_intent": nil, "shipping_options": []any{}, "status": s.status, "submit_type": nil, "subscription": nil,
		"success_url": s.successURL, "total_details": object{"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0}, "ui_mode": "hosted",
		"url": address,
	}
}

func (o *offer) chargeObject() object {
	c := o.charge
	captured := int64(0)
	if c.status == "succeeded" {
		captured = o.amount
	}
	var moved any
	if c.movement != nil {
		moved = c.movement.id
	}
	return object{
		"id": c.id, "object": "charge", "amount": o.amount, "amount_captured": captured, "amount_refunded": c.refunded, "application": nil,
		"application_fee": nil, "application_fee_amount": nil, "balance_transaction": moved, "billing_details": object{"name": nil},
		"calculated_statement_descriptor": "SIMULATOR", "captured": c.status == "succeeded", "created": c.created.Unix(), "currency": o.currency,
		"customer": nil, "description": orNull(o.text), "destination": nil, "dispute": nil, "disputed": false, "failure_code": nil,
		"failure_message": nil, "fraud_details": object{}, "livemode": false, "metadata": maps.Clone(o.metadata), "on_behalf_of": nil,
		"outcome": object{"network_status": "approved_by_network", "type": "authorized"}, "paid": c.status == "succeeded",
		"payment_intent": o.intentID, "payment_method": "pm_" + strings.TrimPrefix(c.id, "ch_"),
		"payment_method_details": object{"type": "card", "card": object{"brand": "visa", "last4": "4242"}}, "receipt_email": nil,
		"refunded": c.refunded == o.amount, "review": nil, "shipping": nil, "source_transfer": nil, "status": c.status,
		"transfer_data": nil, "transfer_group": orNull(o.group),
	}
}

func (r *refund) object() object {
	o := object{
		"id": r.id, "object": "refund", "amount": r.amount, "balance_transaction": r.movement.id, "charge": r.of.charge.id,
		"created": r.created.Unix(), "currency": r.of.currency, "destination_details": object{"card": object{"type": "refund"}, "type": "card"},
		"metadata": maps.Clone(r.metadata), "payment_intent": r.of.intentID, "reason": orNull(r.reason), "receipt_number": nil,
		"source_transfer_reversal": nil, "status": r.status, "transfer_reversal": nil,
	}
	if r.failure != "" {
		o["failure_reason"] = r.failure
	}
	return o
}

func (t *transfer) object() object {
	var list []any
	for _, r := range t.reversals {
		list = append(list, r.object())
	}
	return object{
		"id": t.id, "object": "transfer", "amount": t.amount, "amount_reversed": t.reversed, "balance_transaction": t.movement.id,
		"created": t.created.Unix(), "currency": t.currency, "description": orNull(t.text), "destination": t.destination,
		"destination_payment": "py_" + strings.TrimPrefix(t.id, "tr_"), "livemode": false, "metadata": maps.Clone(t.metadata),
		"reversals": page("/v1/transfers/"+t.id+"/reversals", list, false), "reversed": t.reversed == t.amount,
		"source_transaction": t.of.charge.id, "source_type": "card", "transfer_group": orNull(t.group),
	}
}

func (r *reversal) object() object {
	return object{
		"id": r.id, "object": "transfer_reversal", "amount": r.amount, "balance_transaction": r.movement.id, "created": r.created.Unix(),
		"currency": r.of.currency, "destination_payment_refund": nil, "metadata": maps.Clone(r.metadata), "source_refund": nil, "transfer": r.of.id,
	}
}

func (m *movement) object() object {
	var details []any
	if m.fee != 0 {
		details = append(details, object{"amount": m.fee, "application": nil, "currency": m.currency, "description": "Stripe processing fees", "type": "stripe_fee"})
	}
	return object{
		"id": m.id, "object": "balance_transaction", "amount": m.amount, "available_on": m.created.Add(48 * time.Hour).Unix(),
		"created": m.created.Unix(), "currency": m.currency, "description": orNull(m.text), "exchange_rate": nil, "fee": m.fee,
		"fee_details": details, "net": m.amount - m.fee, "reporting_category": m.category, "source": m.source, "status": "pending", "type": m.kind,
	}
}

func page(address string, data []any, more bool) object {
	if data == nil {
		data = []any{}
	}
	return object{"object": "list", "data": data, "has_more": more, "url": address}
}

// byID finds what can be expanded.
func (s *Simulator) byID(id string) (object, bool) {
	for _, o := range s.offers {
		switch {
		case o.intentID == id:
			return o.intentObject(), true
		case o.charge != nil && o.charge.id == id:
			return o.chargeObject(), true
		}
	}
	if r := s.refundOf(id); r != nil {
		return r.object(), true
	}
	if t := s.transferOf(id); t != nil {
		return t.object(), true
	}
	for _, t := range s.transfer {
		for _, r := range t.reversals {
			if r.id == id {
				return r.object(), true
			}
		}
	}
	for _, m := range s.balance {
		if m.id == id {
			return m.object(), true
		}
	}
	return nil, false
}

// offerOf finds an offer by its PaymentIntent, session or charge.
func (s *Simulator) offerOf(id string) *offer {
	for _, o := range s.offers {
		if id != "" && (o.intentID == id || (o.session != nil && o.session.id == id) || (o.charge != nil && o.charge.id == id)) {
			return o
		}
	}
	return nil
}

func (s *Simulator) refundOf(id string) *refund {
	for _, r := range s.refunds {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (s *Simulator) transferOf(id string) *transfer {
	for _, t := range s.transfer {
		if t.id == id {
			return t
		}
	}
	return nil
}
