package stripe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// Orders implements [simulator.Simulator].
func (s *Simulator) Orders() []simulator.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	var orders []simulator.Order
	for _, o := range s.offers {
		order := simulator.Order{OutTradeNo: o.order(), Amount: iso(o.amount, o.currency), Currency: strings.ToUpper(o.currency), State: "OPEN"}
		switch {
		case o.status == "succeeded":
			order.State, order.TransactionID, order.Refunded = "PAID", o.intentID, iso(o.charge.refunded, o.currency)
		case o.status == "canceled", o.session != nil && o.session.status == "expired":
			order.State = "CLOSED"
		}
		orders = append(orders, order)
	}
	return orders
}

// iso turns Stripe's units into those of ISO 4217.
func iso(amount int64, currency string) int64 {
	switch currency {
	case "isk", "ugx":
		return amount / 100
	case "mga":
		return amount * 100
	}
	return amount
}

// Pay implements [simulator.Simulator]. One payment is told by several webhooks.
func (s *Simulator) Pay(outTradeNo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.open(outTradeNo)
	if err != nil {
		return err
	}
	if o.session != nil {
		if !s.now().Before(o.session.expires) {
			s.expired(o)
			return fmt.Errorf("the session of %s is over", outTradeNo)
		}
		o.session.status = "complete"
	}
	s.attempt(o)
	if s.quirks.Async {
		o.status, o.charge.status = "processing", "pending"
		s.tell("payment_intent.processing", o.intentObject())
		s.tell("charge.pending", o.chargeObject())
		if o.session != nil {
			s.tell("checkout.session.completed", o.sessionObject())
		}
		return nil
	}
	s.succeed(o, "checkout.session.completed")
	return nil
}

// Settle ends a payment that takes days.
func (s *Simulator) Settle(outTradeNo string, paid bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(outTradeNo, func(o *offer) bool { return o.status == "processing" })
	if err != nil {
		return err
	}
	if paid {
		s.succeed(o, "checkout.session.async_payment_succeeded")
		return nil
	}
	s.fail(o)
	if o.session != nil {
		s.tell("checkout.session.async_payment_failed", o.sessionObject())
	}
	return nil
}

// Decline lets the payer try with a card that is declined; the order stays open.
func (s *Simulator) Decline(outTradeNo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.open(outTradeNo)
	if err != nil {
		return err
	}
	s.attempt(o)
	s.fail(o)
	return nil
}

// open finds what a payer can pay of an order, the newest first.
func (s *Simulator) open(outTradeNo string) (*offer, error) {
	return s.find(outTradeNo, func(o *offer) bool {
		return o.status == "requires_payment_method" && (o.session == nil || o.session.status == "open")
	})
}

func (s *Simulator) find(outTradeNo string, fits func(*offer) bool) (*offer, error) {
	for _, o := range slices.Backward(s.offers) {
		if o.order() == outTradeNo && fits(o) {
			return o, nil
		}
	}
	return nil, fmt.Errorf("nothing of order %s can be paid", outTradeNo)
}

// attempt is a payer's try: a session makes its PaymentIntent with the first one.
func (s *Simulator) attempt(o *offer) {
	if o.intentID == "" {
		o.intentID = "pi_3" + word(23)
		o.secret = o.intentID + "_secret_" + word(24)
	}
	o.charge = &charge{id: "ch_3" + word(23), created: s.now()}
}

func (s *Simulator) succeed(o *offer, sessionEvent string) {
	o.status, o.charge.status, o.lastError = "succeeded", "succeeded", nil
	settled := o.currency
	if s.quirks.SettleIn != "" {
		settled = s.quirks.SettleIn
	}
	s.tell("charge.succeeded", o.chargeObject())
	s.tell("payment_intent.succeeded", o.intentObject())
	if o.session != nil {
		o.session.paid = "paid"
		s.tell(sessionEvent, o.sessionObject())
	}
	// Captured in the background ("automatic_async"): the balance transaction is made, and told, a little later
	// (docs.stripe.com/payments/payment-intents/asynchronous-capture).
	fee := (o.amount*29 + 500) / 1000 // 2.9 % and 30
	o.charge.movement = s.move(o.charge.id, "charge", "charge", o.amount, fee+30, settled)
	s.tell("charge.updated", o.chargeObject())
}

func (s *Simulator) fail(o *offer) {
	o.status, o.charge.status = "requires_payment_method", "failed"
	o.lastError = object{"type": "card_error", "code": "card_declined", "decline_code": "generic_decline", "message": "Your card was declined."}
	s.tell("charge.failed", o.chargeObject())
	s.tell("payment_intent.payment_failed", o.intentObject())
}

// move writes into the balance.
func (s *Simulator) move(source, kind, category string, amount, fee int64, currency string) *movement {
	m := &movement{id: "txn_3" + word(23), source: source, currency: currency, kind: kind, category: category, amount: amount, fee: fee, created: s.now()}
	s.balance = append(s.balance, m)
	return m
}

// SettleRefund implements [simulator.Simulator]. A refund that succeeded can fail later; Stripe knows no ABNORMAL.
func (s *Simulator) SettleRefund(outRefundNo, state string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.refunds, func(r *refund) bool { return r.metadata["out_refund_no"] == outRefundNo })
	if at < 0 {
		return fmt.Errorf("there is no refund %s", outRefundNo)
	}
	r := s.refunds[at]
	switch {
	case state == "SUCCEEDED" && r.status == "pending":
		r.status = "succeeded"
	case state == "FAILED" && r.status != "failed":
		r.status, r.failure = "failed", "lost_or_stolen_card"
		r.of.charge.refunded -= r.amount
		s.move(r.id, "refund_failure", "refund_failure", r.amount, 0, r.of.currency)
		s.tell("refund.failed", r.object())
	default:
		return fmt.Errorf("a refund that is %s cannot become %s at Stripe", r.status, state)
	}
	s.tell("refund.updated", r.object())
	s.tell("charge.refund.updated", r.object())
	return nil
}

// SettleShare implements [simulator.Simulator]. Transfers are final when they are made: there is nothing to settle, and no
// leg can be closed any more (see [Quirks.Refuse]).
func (s *Simulator) SettleShare(outOrderNo string, closed ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.transfer, func(t *transfer) bool { return t.metadata["out_order_no"] == outOrderNo }) {
		return fmt.Errorf("there is no sharing %s", outOrderNo)
	}
	if len(closed) > 0 {
		return fmt.Errorf("transfers of %s are made: Stripe takes none back", outOrderNo)
	}
	return nil
}

// Transferred is what a connected account got and kept, in Stripe's units.
func (s *Simulator) Transferred(account string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int64(0)
	for _, t := range s.transfer {
		if t.destination == account {
			total += t.amount - t.reversed
		}
	}
	return int(total)
}
