package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
)

// The parts of Stripe's objects that are read here (docs.stripe.com/api). Times are Unix seconds; amounts are Stripe's units.

// APIVersion is the version of the API that our calls ask for. Webhooks come in the version of their endpoint; the fields
// read here are the same in all versions since 2022-11-15.
const APIVersion = "2026-03-25.dahlia"

// The objects by Stripe's own names.
const (
	objectEvent    = "event"
	objectIntent   = "payment_intent"
	objectSession  = "checkout.session"
	objectCharge   = "charge"
	objectRefund   = "refund"
	objectTransfer = "transfer"
	objectList     = "list"
	// objectRefused is our own: Stripe keeps nothing of a transfer that it refused, and a leg that will never be paid is
	// an event too. No webhook carries it (see parse.go).
	objectRefused = "paylatch.refused_transfer"
)

// Our numbers in Stripe's metadata.
const (
	metaOrder  = "out_trade_no"
	metaRefund = "out_refund_no"
	metaShare  = "out_order_no"
	metaReturn = "out_return_no"
	metaIntent = "payment_intent"
	metaReason = "reason"
)

type header struct {
	Object string `json:"object"`
	ID     string `json:"id"`
}

type event struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Account  string `json:"account"` // of a connected account; absent for our own
	Created  int64  `json:"created"`
	Livemode *bool  `json:"livemode"`
	Data     struct {
		Object json.RawMessage `json:"object"`
	} `json:"data"`
}

type intent struct {
	ID             string            `json:"id"`
	Amount         int64             `json:"amount"`
	AmountReceived int64             `json:"amount_received"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Created        int64             `json:"created"`
	Livemode       *bool             `json:"livemode"`
	Metadata       map[string]string `json:"metadata"`
	LatestCharge   ref               `json:"latest_charge"`
	ClientSecret   string            `json:"client_secret"`
	TransferGroup  string            `json:"transfer_group"`
}

// The statuses of a PaymentIntent. The others (requires_payment_method, requires_confirmation, requires_action,
// requires_capture, processing) can still become one of these.
const (
	intentSucceeded  = "succeeded"
	intentCanceled   = "canceled"
	intentProcessing = "processing"
	intentNeedsMeans = "requires_payment_method"
)

type session struct {
	ID                string            `json:"id"`
	AmountTotal       *int64            `json:"amount_total"`
	Currency          string            `json:"currency"`
	Mode              string            `json:"mode"`
	Status            string            `json:"status"`         // open, complete, expired
	PaymentStatus     string            `json:"payment_status"` // paid, unpaid, no_payment_required
	ClientReferenceID string            `json:"client_reference_id"`
	Created           int64             `json:"created"`
	Livemode          *bool             `json:"livemode"`
	Metadata          map[string]string `json:"metadata"`
	PaymentIntent     ref               `json:"payment_intent"`
	URL               string            `json:"url"`
}

const (
	sessionOpen     = "open"
	sessionComplete = "complete"
	sessionExpired  = "expired"
	sessionPaid     = "paid"
	sessionUnpaid   = "unpaid"
)

func (s session) order() string {
	if number := s.Metadata[metaOrder]; number != "" {
		return number
	}
	return s.ClientReferenceID
}

type charge struct {
	ID                 string            `json:"id"`
	Amount             int64             `json:"amount"`
	AmountCaptured     int64             `json:"amount_captured"`
	AmountRefunded     int64             `json:"amount_refunded"`
	Currency           string            `json:"currency"`
	Status             string            `json:"status"` // succeeded, pending, failed
	Captured           bool              `json:"captured"`
	Created            int64             `json:"created"`
	Livemode           *bool             `json:"livemode"`
	Metadata           map[string]string `json:"metadata"`
	PaymentIntent      ref               `json:"payment_intent"`
	BalanceTransaction ref               `json:"balance_transaction"`
	TransferGroup      string            `json:"transfer_group"`
	Refunds            struct {
		Data []json.RawMessage `json:"data"`
	} `json:"refunds"`
}

// transaction is the PaymentIntent, or the charge itself where it has none (the Charges API).
func (c charge) transaction() string {
	if c.PaymentIntent.ID != "" {
		return c.PaymentIntent.ID
	}
	return c.ID
}

type refund struct {
	ID            string            `json:"id"`
	Amount        int64             `json:"amount"`
	Currency      string            `json:"currency"`
	Status        string            `json:"status"`
	Created       int64             `json:"created"`
	Metadata      map[string]string `json:"metadata"`
	PaymentIntent ref               `json:"payment_intent"`
	Charge        ref               `json:"charge"`
	FailureReason string            `json:"failure_reason"`
}

// The statuses of a refund. A refund that succeeded can fail later, when the payer's bank returns the money.
const (
	refundSucceeded   = "succeeded"
	refundFailed      = "failed"
	refundCanceled    = "canceled"
	refundPending     = "pending"
	refundNeedsAction = "requires_action"
)

func (r refund) transaction() string {
	if r.PaymentIntent.ID != "" {
		return r.PaymentIntent.ID
	}
	return r.Charge.ID
}

type transfer struct {
	ID             string            `json:"id"`
	Amount         int64             `json:"amount"`
	AmountReversed int64             `json:"amount_reversed"`
	Currency       string            `json:"currency"`
	Created        int64             `json:"created"`
	Livemode       *bool             `json:"livemode"`
	Metadata       map[string]string `json:"metadata"`
	Destination    ref               `json:"destination"`
	TransferGroup  string            `json:"transfer_group"`
}

type reversal struct {
	ID       string            `json:"id"`
	Amount   int64             `json:"amount"`
	Metadata map[string]string `json:"metadata"`
}

// refusedTransfer is a transfer that Stripe refused, in our words and Stripe's.
type refusedTransfer struct {
	Object        string `json:"object"`
	OutOrderNo    string `json:"out_order_no"`
	OutTradeNo    string `json:"out_trade_no"`
	PaymentIntent string `json:"payment_intent"`
	Destination   string `json:"destination"`
	Amount        int64  `json:"amount"` // Stripe's units
	Currency      string `json:"currency"`
	Code          string `json:"code"`
	Message       string `json:"message"`
}

type balanceTransaction struct {
	ID                string `json:"id"`
	Amount            int64  `json:"amount"`
	Fee               int64  `json:"fee"`
	Net               int64  `json:"net"`
	Currency          string `json:"currency"`
	Created           int64  `json:"created"`
	AvailableOn       int64  `json:"available_on"`
	Type              string `json:"type"`
	ReportingCategory string `json:"reporting_category"`
	Description       string `json:"description"`
	Source            ref    `json:"source"`
}

// page is a part of a list, or of a search.
type page struct {
	Object  string            `json:"object"`
	Data    []json.RawMessage `json:"data"`
	HasMore bool              `json:"has_more"`
}

// ref is a field that holds an id, or the object itself where it was expanded, or null.
type ref struct {
	ID  string
	raw json.RawMessage // of an expanded object
}

var errRef = errors.New("neither an id nor an object")

func (r *ref) UnmarshalJSON(text []byte) error {
	text = bytes.TrimSpace(text)
	switch {
	case bytes.Equal(text, []byte("null")):
		return nil
	case len(text) > 0 && text[0] == '"':
		return json.Unmarshal(text, &r.ID)
	case len(text) > 0 && text[0] == '{':
		var h header
		if err := json.Unmarshal(text, &h); err != nil {
			return err
		}
		r.ID, r.raw = h.ID, bytes.Clone(text)
		return nil
	}
	return errRef
}

// expand reads the object into v; false where it was not expanded or does not fit.
func (r ref) expand(v any) bool { return r.raw != nil && json.Unmarshal(r.raw, v) == nil }

// expanded tells whether the object itself is there.
func (r ref) expanded() bool { return r.raw != nil }

// earned reads the fee of an expanded balance transaction, in minor units of the currency that was charged; 0 where Stripe took
// none, settled in another currency, or counts finer than ISO 4217.
func earned(r ref, currency string) (b balanceTransaction, fee int64) {
	if !r.expand(&b) || b.Currency != currency || b.Fee <= 0 {
		return b, 0
	}
	fee, exact := fromStripe(b.Fee, upper(b.Currency))
	if !exact {
		return b, 0
	}
	return b, fee
}
