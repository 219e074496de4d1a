package payment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/tenant"
)

// EventState says how far an event is.
type EventState string

// The states of an event. Only DONE and IGNORED are ends; PARKED waits for one of its three exits.
const (
	Received EventState = "RECEIVED"
	Done     EventState = "DONE"
	Parked   EventState = "PARKED"
	Ignored  EventState = "IGNORED"
)

// EventStates lists all states of an event.
func EventStates() []EventState { return []EventState{Received, Done, Parked, Ignored} }

// Outcome says what became of an event, or why it is parked.
type Outcome string

// The outcomes.
const (
	// DONE: its effect is there.
	Credited      Outcome = "CREDITED"
	ClosedOrder   Outcome = "CLOSED"
	SecondPayment Outcome = "SECOND_PAYMENT" // in suspense: the order was paid by another transaction
	LatePayment   Outcome = "LATE_PAYMENT"   // in suspense: the order was closed
	AttemptFailed Outcome = "ATTEMPT_FAILED" // recorded: the payer may try again
	Shared        Outcome = "SHARED"         // a receiver of a sharing was paid
	ShareClosed   Outcome = "SHARE_CLOSED"   // a receiver of a sharing gets nothing: its part stays with the merchant

	Refunded       Outcome = "REFUNDED"
	RefundAdopted  Outcome = "REFUND_ADOPTED"  // booked: it was made in the channel's own console, or succeeded after it had failed
	RefundFailed   Outcome = "REFUND_FAILED"   // what was set aside for it is given back
	RefundReversed Outcome = "REFUND_REVERSED" // it failed after it had succeeded: its journal is reversed
	RefundAbnormal Outcome = "REFUND_ABNORMAL" // recorded: it is stuck at the channel until a person acts there
	RefundAsked    Outcome = "REFUND_ASKED"    // a hint: the channel was asked, and its answer is booked

	FeeBooked Outcome = "FEE_BOOKED" // the channel's fee for a payment
	FeeAsked  Outcome = "FEE_ASKED"  // a hint: the channel was asked for a fee, and its answer is booked

	// PARKED: it waits for an operator, or for its order.
	UnknownOrder     Outcome = "UNKNOWN_ORDER"
	UnknownRefund    Outcome = "UNKNOWN_REFUND"
	UnknownShare     Outcome = "UNKNOWN_SHARE"
	UnknownPayment   Outcome = "UNKNOWN_PAYMENT" // a fee of a payment that is not booked, yet
	AmountMismatch   Outcome = "AMOUNT_MISMATCH"
	CurrencyMismatch Outcome = "CURRENCY_MISMATCH"
	ContextMismatch  Outcome = "CONTEXT_MISMATCH"
	Conflict         Outcome = "CONFLICT" // it contradicts an event that was accepted before
	Unreadable       Outcome = "UNREADABLE"
	Unbookable       Outcome = "UNBOOKABLE" // the books cannot take it: an amount beyond 64 bits, a rule of the database

	// IGNORED: authentic, and nothing to do.
	Stale           Outcome = "STALE"
	UnsupportedType Outcome = "UNSUPPORTED_TYPE"
	Foreign         Outcome = "FOREIGN"    // it bears no number of ours: others use the same account of the channel
	Rejected        Outcome = "REJECTED"   // by an operator, with a reason
	Superseded      Outcome = "SUPERSEDED" // read again, it is now an event of its own key
)

// Event is a reported fact and what became of it.
type Event struct {
	ID            int64        `db:"id"`
	TenantID      string       `db:"tenant_id"`
	AccountID     int64        `db:"account_id"`
	Channel       string       `db:"channel"`
	Account       string       `db:"account"`
	Key           string       `db:"event_key"`
	ReceiptID     int64        `db:"receipt_id"`
	Kind          channel.Kind `db:"kind"`
	TransactionID string       `db:"transaction_id"`
	OutTradeNo    string       `db:"out_trade_no"`
	Amount        *int64       `db:"amount"` // minor units of Currency; nil where the channel tells none
	Currency      *string      `db:"currency"`
	PayerAmount   *int64       `db:"payer_amount"`
	Fee           *int64       `db:"fee"`
	OutNo         string       `db:"out_no"` // the merchant's own number of a refund or sharing
	Receiver      string       `db:"receiver"`
	LegState      string       `db:"leg_state"`
	OccurredAt    *time.Time   `db:"occurred_at"`
	Mismatch      string       `db:"mismatch"`
	State         EventState   `db:"state"`
	Outcome       *Outcome     `db:"outcome"`
	Reason        string       `db:"reason"`
	ConflictsWith *int64       `db:"conflicts_with"`
	JournalKey    *string      `db:"journal_key"`
	ReceivedAt    time.Time    `db:"received_at"`
	StateSince    time.Time    `db:"state_since"`
	NextDriveAt   time.Time    `db:"next_drive_at"`
	// AskedAt is when the channel was asked about it; nil before, and again once it is judged anew.
	AskedAt *time.Time `db:"asked_at"`
}

// Subject is what the event is about in the channel's own numbers, out of its key: the transaction of a payment, the refund
// of a refund, share and receiver of a share; empty where the body names none.
func (e Event) Subject() string {
	key, _, _ := strings.Cut(strings.TrimPrefix(e.Key, e.Channel+":"), ":"+string(e.Kind))
	if key == e.Key {
		return ""
	}
	return key
}

// report is what one message says, ready to be judged: the event's facts and the key they stand under.
type report struct {
	key string
	channel.Event
}

// says tells whether the report says what the stored event says.
func (r report) says(e Event) bool {
	return r.Mismatch == e.Mismatch && r.Kind == e.Kind && r.TransactionID == e.TransactionID && r.OutTradeNo == e.OutTradeNo &&
		r.Amount == deref(e.Amount) && r.Currency == deref(e.Currency) && r.OutNo == e.OutNo && r.Receiver == e.Receiver && string(r.LegState) == e.LegState
}

// conflictKey is the key of a report that contradicts the event under r.key: the same contradiction has the same key.
func (r report) conflictKey() string {
	facts := fmt.Appendf(nil, "%q %q %d %q %q", r.TransactionID, r.OutTradeNo, r.Amount, r.Currency, r.Mismatch)
	if r.OutNo != "" || r.Receiver != "" {
		facts = fmt.Appendf(facts, " %q %q %q", r.OutNo, r.Receiver, r.LegState)
	}
	sum := sha256.Sum256(facts)
	return r.key + "#" + hex.EncodeToString(sum[:8])
}

// describe says for people what was reported.
func (r report) describe() string {
	text := fmt.Sprintf("order %q", r.OutTradeNo)
	if r.Currency != "" {
		text = money.Format(r.Amount, r.Currency) + " for " + text
	}
	if r.Mismatch != "" {
		text += ", " + r.Mismatch
	}
	return text
}

// eventOf gives a report the form of a stored event, to compare two reports.
func eventOf(r report) Event {
	return Event{
		Kind: r.Kind, TransactionID: r.TransactionID, OutTradeNo: r.OutTradeNo, Amount: orNil(r.Amount), Currency: orNil(r.Currency), Mismatch: r.Mismatch,
		OutNo: r.OutNo, Receiver: r.Receiver, LegState: string(r.LegState),
	}
}

// eventAt is a report as the event that it would be stored as.
func eventAt(acct tenant.Account, r report) Event {
	ev := eventOf(r)
	ev.TenantID, ev.AccountID, ev.Channel, ev.Account, ev.Key = acct.TenantID, acct.ID, acct.Channel.Name(), acct.Name, r.key
	ev.PayerAmount, ev.Fee, ev.OccurredAt = orNil(r.PayerAmount), r.Fee, orNil(r.OccurredAt)
	return ev
}

func reportOf(e Event) report {
	r := report{key: e.Key, Event: channel.Event{
		Kind: e.Kind, TransactionID: e.TransactionID, OutTradeNo: e.OutTradeNo,
		Amount: deref(e.Amount), Currency: deref(e.Currency), PayerAmount: deref(e.PayerAmount), Fee: e.Fee, Mismatch: e.Mismatch,
		OutNo: e.OutNo, Receiver: e.Receiver, LegState: channel.LegState(e.LegState),
	}}
	r.Subject = e.Subject()
	if e.OccurredAt != nil {
		r.OccurredAt = *e.OccurredAt
	}
	return r
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orNil gives null to the database where a channel told nothing.
func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// ReadEvent reads one event of any tenant. Error: [ErrEventNotFound].
func ReadEvent(ctx context.Context, db Querier, id int64) (Event, error) {
	rows, err := db.Query(ctx, eventSQL+" WHERE e.id = $1", id)
	if err != nil {
		return Event{}, fmt.Errorf("read event %d: %w", id, err)
	}
	ev, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Event])
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrEventNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event %d: %w", id, err)
	}
	return ev, nil
}
