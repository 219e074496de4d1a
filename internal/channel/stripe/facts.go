package stripe

import (
	"encoding/json"
	"fmt"

	"github.com/paylatch/paylatch/internal/channel"
)

// intent reads a PaymentIntent. A failed attempt leaves it open for the next one, so only its event tells of it.
func (o occasion) intent(raw json.RawMessage) ([]channel.Event, error) {
	var p intent
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unusable(err)
	}
	var kind channel.Kind
	value := p.Amount
	switch {
	case o.kind == "payment_intent.payment_failed":
		kind = channel.PayFailed
	case p.Status == intentSucceeded && (o.kind == "" || o.kind == "payment_intent.succeeded"):
		// What was received is what is credited: less than the amount where a part was captured.
		kind, value = channel.PaySuccess, p.AmountReceived
	case p.Status == intentCanceled && (o.kind == "" || o.kind == "payment_intent.canceled"):
		kind = channel.PayClosed
	case o.kind == "":
		return unsupported("a PaymentIntent of status %s", quoted(p.Status)), nil
	default:
		return nil, unusablef("an event of type %s with the status %s", o.kind, quoted(p.Status))
	}
	e := o.event(kind, p.Created, p.Livemode)
	e.Subject, e.TransactionID, e.OutTradeNo = p.ID, p.ID, p.Metadata[metaOrder]
	e.Foreign = e.OutTradeNo == ""
	if err := amount(&e, value, p.Currency); err != nil {
		return nil, err
	}
	var c charge
	if kind != channel.PaySuccess || !p.LatestCharge.expand(&c) {
		return []channel.Event{e}, nil
	}
	if o.kind == "" {
		e.OccurredAt = seconds(c.Created)
	}
	return withFee(e, c), nil
}

// charge reads a charge. An authorization that was not captured is no payment yet.
func (o occasion) charge(raw json.RawMessage) ([]channel.Event, error) {
	var c charge
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, unusable(err)
	}
	switch {
	case c.Status == "succeeded" && c.Captured:
	case c.Status == "succeeded":
		return unsupported("a charge that is not captured"), nil
	case o.kind == "":
		return unsupported("a charge of status %s", quoted(c.Status)), nil
	default:
		return nil, unusablef("an event of type %s with the status %s", o.kind, quoted(c.Status))
	}
	e := o.event(channel.PaySuccess, c.Created, c.Livemode)
	e.Subject, e.TransactionID, e.OutTradeNo = c.transaction(), c.transaction(), c.Metadata[metaOrder]
	e.Foreign = e.OutTradeNo == ""
	if err := amount(&e, c.AmountCaptured, c.Currency); err != nil {
		return nil, err
	}
	return withFee(e, c), nil
}

// charged reads the charge of charge.updated, which tells that a payment's balance transaction is there (and many other things
// that nobody needs).
func (o occasion) charged(raw json.RawMessage) ([]channel.Event, error) {
	var c charge
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, unusable(err)
	}
	if c.Status != "succeeded" || !c.Captured || c.BalanceTransaction.ID == "" {
		return unsupported("a change of a charge that tells of no fee"), nil
	}
	e := o.event(channel.PaySuccess, c.Created, c.Livemode)
	e.TransactionID, e.OutTradeNo = c.transaction(), c.Metadata[metaOrder]
	if told := withFee(e, c)[1:]; len(told) > 0 {
		return told, nil
	}
	return unsupported("a change of a charge that tells of no fee"), nil
}

// withFee adds to a payment what its charge tells of the fee. The fee is an event of its own, of the balance transaction: most
// messages about a payment come without it, and the same payment must be the same event by all of them. A balance transaction
// that is only named is a hint to ask for it; one that settles in another currency, or takes nothing, tells no fee.
func withFee(paid channel.Event, c charge) []channel.Event {
	events := []channel.Event{paid}
	if c.BalanceTransaction.ID == "" {
		return events
	}
	fee := channel.Event{
		Kind: channel.PayFeeHint, Subject: c.BalanceTransaction.ID, TransactionID: paid.TransactionID, OutTradeNo: paid.OutTradeNo,
		OccurredAt: paid.OccurredAt, Mismatch: paid.Mismatch,
	}
	if c.BalanceTransaction.expanded() {
		b, value := earned(c.BalanceTransaction, c.Currency)
		if value == 0 {
			return events
		}
		fee.Kind, fee.Amount, fee.Currency, fee.OccurredAt = channel.PayFee, value, upper(c.Currency), seconds(b.Created)
	}
	return append(events, fee)
}

// session reads a Checkout session. "Completed" says that the payer is through, not that money came: some methods take days.
func (o occasion) session(raw json.RawMessage) ([]channel.Event, error) {
	var s session
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, unusable(err)
	}
	var kind channel.Kind
	switch {
	case o.kind == "checkout.session.async_payment_failed":
		kind = channel.PayFailed
	case o.kind == "checkout.session.expired", o.kind == "" && s.Status == sessionExpired:
		kind = channel.PayClosed
	case s.PaymentStatus == sessionPaid && s.PaymentIntent.ID != "":
		kind = channel.PaySuccess
	case s.PaymentStatus == sessionPaid:
		return unsupported("a session of mode %s, paid without a PaymentIntent", quoted(s.Mode)), nil
	case s.PaymentStatus == sessionUnpaid && o.kind != "checkout.session.async_payment_succeeded":
		return unsupported("a session that is not paid yet: its method takes days, and another event will tell"), nil
	case s.PaymentStatus == "no_payment_required":
		return unsupported("a session that asks for no payment"), nil
	default:
		return nil, unusablef("a session with the payment status %s", quoted(s.PaymentStatus))
	}
	e := o.event(kind, s.Created, s.Livemode)
	e.Subject, e.TransactionID, e.OutTradeNo = s.PaymentIntent.ID, s.PaymentIntent.ID, s.order()
	if kind == channel.PayClosed || e.Subject == "" {
		e.Subject = s.ID // the attempt by which the order was announced; it may have made no PaymentIntent
	}
	e.Foreign = e.OutTradeNo == ""
	if s.AmountTotal == nil {
		return nil, unusablef("a session without a total")
	}
	if err := amount(&e, *s.AmountTotal, s.Currency); err != nil {
		return nil, err
	}
	var p intent
	var c charge
	if kind != channel.PaySuccess || !s.PaymentIntent.expand(&p) || !p.LatestCharge.expand(&c) {
		return []channel.Event{e}, nil
	}
	if o.kind == "" {
		e.OccurredAt = seconds(c.Created)
	}
	return withFee(e, c), nil
}

// refunded reads the charge of charge.refunded: what was refunded of it in all, which nothing may be booked from, unless it
// holds the refunds themselves (as it did before version 2022-11-15).
func (o occasion) refunded(raw json.RawMessage) ([]channel.Event, error) {
	var c charge
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, unusable(err)
	}
	var events []channel.Event
	for _, each := range c.Refunds.Data {
		found, err := o.refund(each)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Kind != channel.Unsupported {
				events = append(events, e)
			}
		}
	}
	if len(events) > 0 {
		return events, nil
	}
	if c.ID == "" {
		return nil, unusablef("it names no charge")
	}
	e := o.event(channel.RefundHint, c.Created, c.Livemode)
	// Each total is a hint of its own: the second refund of a charge must not be taken for the first.
	e.Subject = fmt.Sprintf("%s:%d", c.ID, c.AmountRefunded)
	e.TransactionID, e.OutTradeNo = c.transaction(), c.Metadata[metaOrder]
	return []channel.Event{e}, nil
}

// refund reads a refund by its status alone: its events come in any order.
func (o occasion) refund(raw json.RawMessage) ([]channel.Event, error) {
	var r refund
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, unusable(err)
	}
	var kind channel.Kind
	switch r.Status {
	case refundSucceeded:
		kind = channel.RefundSuccess
	case refundFailed, refundCanceled:
		kind = channel.RefundFailed
	case refundPending, refundNeedsAction:
		return unsupported("refund %s is not ended: %s", quoted(r.ID), r.Status), nil
	default:
		return nil, unusablef("a refund with the status %s", quoted(r.Status))
	}
	e := o.event(kind, r.Created, nil)
	e.Subject, e.TransactionID = r.ID, r.transaction()
	e.OutTradeNo, e.OutNo = r.Metadata[metaOrder], r.Metadata[metaRefund]
	if err := amount(&e, r.Amount, r.Currency); err != nil {
		return nil, err
	}
	if kind == channel.RefundFailed {
		e.Note = "the refund is " + r.Status
		if r.FailureReason != "" {
			e.Note += ": " + quoted(r.FailureReason)
		}
	}
	return []channel.Event{e}, nil
}

// transfer reads one leg of a sharing: it was paid, whatever was returned of it later.
func (o occasion) transfer(raw json.RawMessage) ([]channel.Event, error) {
	var t transfer
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, unusable(err)
	}
	e := o.event(channel.ShareResult, t.Created, t.Livemode)
	e.Subject, e.Receiver, e.LegState = t.ID, t.Destination.ID, channel.LegSucceeded
	e.TransactionID, e.OutTradeNo, e.OutNo = t.Metadata[metaIntent], t.Metadata[metaOrder], t.Metadata[metaShare]
	e.Foreign = e.OutNo == ""
	if err := amount(&e, t.Amount, t.Currency); err != nil {
		return nil, err
	}
	if t.AmountReversed > 0 {
		e.Note = fmt.Sprintf("%d of %d were returned (in Stripe's units)", t.AmountReversed, t.Amount)
	}
	return []channel.Event{e}, nil
}

// refused reads a leg that Stripe refused. It has no transfer, so our own number and the receiver name it.
func (o occasion) refused(raw json.RawMessage) ([]channel.Event, error) {
	var r refusedTransfer
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, unusable(err)
	}
	if r.OutOrderNo == "" || r.Destination == "" {
		return nil, unusablef("a refused transfer without its number or receiver")
	}
	e := o.event(channel.ShareResult, 0, nil)
	e.Subject = fmt.Sprintf("%s:%s", r.OutOrderNo, r.Destination) // a number holds no colon
	e.Receiver, e.LegState = r.Destination, channel.LegClosed
	e.TransactionID, e.OutTradeNo, e.OutNo = r.PaymentIntent, r.OutTradeNo, r.OutOrderNo
	if err := amount(&e, r.Amount, r.Currency); err != nil {
		return nil, err
	}
	e.Note = fmt.Sprintf("Stripe refused the transfer: %s: %s", quoted(r.Code), quoted(r.Message))
	return []channel.Event{e}, nil
}
