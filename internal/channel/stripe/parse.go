package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// Parse reads webhooks, and what our own queries brought: both are kept as receipts, and say the same of the same fact.
func (a *account) Parse(body []byte) ([]channel.Event, error) {
	var h struct {
		header
		Type string `json:"type"`
	}
	if err := strictjson.Unmarshal(body, &h); err != nil {
		return nil, unusable(err)
	}
	switch h.Object {
	case objectEvent:
		return a.webhook(body)
	case objectIntent, objectSession, objectCharge, objectRefund, objectTransfer:
		return a.found(h.Object, body)
	case objectList:
		return a.list(body)
	case "":
		return nil, unusablef("it is no object of Stripe's")
	}
	// A thin event (v2.core.event) or an object that no call of ours asks for.
	return unsupported("object %s", quoted(h.Object)), nil
}

// list reads what our queries found, one event or more per object.
func (a *account) list(body []byte) ([]channel.Event, error) {
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, unusable(err)
	}
	var events []channel.Event
	for _, raw := range p.Data {
		var h header
		if err := json.Unmarshal(raw, &h); err != nil {
			return nil, unusable(err)
		}
		found, err := a.found(h.Object, raw)
		if err != nil {
			return nil, err
		}
		events = append(events, found...)
	}
	return events, nil
}

// found reads an object that a query brought: it says what it is.
func (a *account) found(object string, raw json.RawMessage) ([]channel.Event, error) {
	o := occasion{live: a.live}
	switch object {
	case objectIntent:
		return o.intent(raw)
	case objectSession:
		return o.session(raw)
	case objectCharge:
		return o.charge(raw)
	case objectRefund:
		return o.refund(raw)
	case objectTransfer:
		return o.transfer(raw)
	case objectRefused:
		return o.refused(raw)
	}
	return unsupported("object %s", quoted(object)), nil
}

// webhook reads an event by its type. The type says what happened, and the object must bear it out.
func (a *account) webhook(body []byte) ([]channel.Event, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, unusable(err)
	}
	switch {
	case e.Type == "":
		return nil, unusablef("it has no type")
	case e.Livemode == nil:
		return nil, unusablef("it does not tell its mode")
	}
	o := occasion{live: a.live, kind: e.Type, at: e.Created, mismatch: a.foreign(e)}
	read := o.reader(e.Type)
	if read == nil {
		return unsupported("type %s", quoted(e.Type)), nil
	}
	var h header
	if err := json.Unmarshal(e.Data.Object, &h); err != nil {
		return nil, unusable(err)
	}
	if want := objectOf(e.Type); h.Object != want {
		return nil, unusablef("an event of type %s without a %s", e.Type, want)
	}
	return read(e.Data.Object)
}

// foreign says in what an event is not of this account. The endpoint of a platform may get the events of its connected
// accounts: they name them.
func (a *account) foreign(e event) string {
	switch {
	case *e.Livemode != a.live:
		return fmt.Sprintf("an event of %s mode, and the account is of %s mode", modeName(*e.Livemode), modeName(a.live))
	case e.Account != "" && e.Account != a.id:
		return fmt.Sprintf("an event of the account %s", quoted(e.Account))
	}
	return ""
}

// reader gives what reads the object of an event; nil for a type that we have no use for.
func (o occasion) reader(kind string) func(json.RawMessage) ([]channel.Event, error) {
	switch kind {
	case "payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled":
		return o.intent
	case "charge.succeeded", "charge.captured":
		return o.charge
	case "charge.updated":
		return o.charged
	case "charge.refunded":
		return o.refunded
	case "checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed",
		"checkout.session.expired":
		return o.session
	case "refund.created", "refund.updated", "refund.failed", "charge.refund.updated":
		return o.refund
	case "transfer.created", "transfer.updated", "transfer.reversed":
		return o.transfer
	}
	return nil
}

// objectOf is the object that an event of a type holds: what stands before its last dot.
func objectOf(kind string) string {
	object := kind[:strings.LastIndexByte(kind, '.')]
	if object == "charge.refund" {
		return objectRefund
	}
	return object
}

// occasion is by what way an object came: as an event's object, or as a query's answer (kind is empty).
type occasion struct {
	live     bool // of the account
	kind     string
	at       int64 // the event's time
	mismatch string
}

// event begins an event of ours.
func (o occasion) event(kind channel.Kind, created int64, livemode *bool) channel.Event {
	e := channel.Event{Kind: kind, Mismatch: o.mismatch, OccurredAt: seconds(created)}
	if o.kind != "" {
		e.OccurredAt = seconds(o.at)
	} else if livemode != nil && *livemode != o.live {
		e.Mismatch = fmt.Sprintf("an object of %s mode, and the account is of %s mode", modeName(*livemode), modeName(o.live))
	}
	return e
}

// seconds is zero where Stripe tells no time.
func seconds(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(at, 0).UTC()
}

// amount puts an amount of Stripe's into an event.
func amount(e *channel.Event, value int64, currency string) error {
	if currency == "" {
		return unusablef("it has no currency")
	}
	converted, exact := fromStripe(value, upper(currency))
	if !exact {
		return unusablef("its amount is not one that can be kept in %s", quoted(upper(currency)))
	}
	e.Amount, e.Currency = converted, upper(currency)
	return nil
}

func upper(currency string) string { return strings.ToUpper(currency) }

func unsupported(format string, args ...any) []channel.Event {
	return []channel.Event{{Kind: channel.Unsupported, Note: fmt.Sprintf(format, args...)}}
}

func unusablef(format string, args ...any) error {
	return &channel.Unusable{Reason: fmt.Sprintf(format, args...)}
}

func unusable(err error) error {
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, strictjson.ErrMalformed):
		return &channel.Unusable{Reason: err.Error()}
	case errors.As(err, &typed) && typed.Field != "":
		return unusablef("its field %q is not of the right type", typed.Field)
	default:
		return unusablef("its fields cannot be read")
	}
}

// quoted makes a text of others safe and short.
func quoted(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.QuoteToASCII(s)
}
