// Package payment holds orders, the events that channels report about them, and the one door through which every event
// comes: callback, query, bill, queue message or an operator's replay.
//
//   - [Orders] is what a merchant may do: create, read and move its orders, one tenant at a time.
//   - [Entry] stores what a channel reports and decides what it means; look-up first, unique index as truth.
//   - [Books] carries out what was decided: state, journal and event in one transaction, once.
//
// Every move is a conditional update whose affected rows decide.
package payment

import (
	"encoding/json"
	"errors"
	"time"
)

// State of a payment. Nothing moves backwards: refunds have a state of their own.
type State string

// The states: PENDING to PAID or CLOSED; PAID to SHIPPED to COMPLETED.
const (
	Pending   State = "PENDING"
	Paid      State = "PAID"
	Shipped   State = "SHIPPED"
	Completed State = "COMPLETED"
	Closed    State = "CLOSED"
)

// States lists all states of a payment.
func States() []State { return []State{Pending, Paid, Shipped, Completed, Closed} }

// Payment is an order as it stands. Amounts are in minor units of Currency.
type Payment struct {
	ID             int64           `db:"id"`
	TenantID       string          `db:"tenant_id"`
	OutTradeNo     string          `db:"out_trade_no"`
	Amount         int64           `db:"amount"`
	Currency       string          `db:"currency"`
	Description    string          `db:"description"`
	Metadata       json.RawMessage `db:"metadata"`
	Channel        string          `db:"channel"` // with Account: the channel account the merchant chose, or empty
	Account        string          `db:"account"`
	Method         string          `db:"method"`
	State          State           `db:"state"`
	RefundState    string          `db:"refund_state"`
	RefundedAmount int64           `db:"refunded_amount"`
	RefundPending  int64           `db:"refund_pending"`
	CloseReason    *string         `db:"close_reason"`
	CreatedAt      time.Time       `db:"created_at"`
	ExpiresAt      time.Time       `db:"expires_at"`
	PaidAt         *time.Time      `db:"paid_at"`
	ShippedAt      *time.Time      `db:"shipped_at"`
	CompletedAt    *time.Time      `db:"completed_at"`
	ClosedAt       *time.Time      `db:"closed_at"`
	Items          json.RawMessage `db:"items"`
	RedemptionCode *string         `db:"redemption_code"`
	AccountID      *int64          `db:"account_id"`
	SharingPlan    json.RawMessage `db:"sharing_plan"`
	// PrepayState is nil for an order whose channel is not asked.
	PrepayState      *string         `db:"prepay_state"`
	PrepayFailure    *string         `db:"prepay_failure"`
	ChannelData      json.RawMessage `db:"channel_data"`
	CloseRequestedAt *time.Time      `db:"close_requested_at"`
}

// The states of announcing an order to its channel (prepay).
const (
	PrepayPending = "PENDING" // not announced yet, or the answer is unknown
	PrepayReady   = "READY"   // the payer can pay
	PrepayFailed  = "FAILED"  // refused for good; the same request tries again
)

// ChannelOptions is what some of the channels' methods need to know.
type ChannelOptions struct {
	Payer     string `json:"payer,omitempty"`      // the payer in the channel's own identity, such as a WeChat openid
	ClientIP  string `json:"client_ip,omitempty"`  // the payer's address
	ReturnURL string `json:"return_url,omitempty"` // where a page sends the payer back to
}

// Errors of this package; api maps each to a status once.
var (
	ErrNotFound = errors.New("no such payment")
	// ErrNumberReused says that another order already has this out_trade_no.
	ErrNumberReused = errors.New("out_trade_no belongs to a payment with another content")
	// ErrIllegalMove says that the payment's state does not allow the move.
	ErrIllegalMove = errors.New("the payment's state does not allow this")
	// ErrAlreadyPaid says that the money is here, or reported and about to be booked.
	ErrAlreadyPaid = errors.New("the payment is paid")

	ErrEventNotFound = errors.New("no such event")
	// ErrNotParked says that an exit was asked for an event that is not parked.
	ErrNotParked = errors.New("the event is not parked")
	// ErrNothingToBook says that a parked event reports no money received.
	ErrNothingToBook = errors.New("the event reports no received amount that could be booked")
	// ErrAlreadyBooked says that the channel's transaction has its one journal already.
	ErrAlreadyBooked = errors.New("this transaction is booked already")
)
