package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Acquirer is the outgoing side of an [Account] whose channel can be asked. Every call names the matter by our own number,
// which is its idempotency key at the channel: called again, whatever became of the first call, nothing happens twice.
//
// Three things come back. An answer; a [*Rejection], which is definite: nothing was done, and calling again changes
// nothing; or any other error, after which it is unknown whether the channel did it. What is unknown is asked for by the
// Query method of the matter, or called again under the same number, and never under a new one.
//
// Answers come authenticated: requests are signed, and replies verified over their raw bytes.
type Acquirer interface {
	// Prepay announces an order, so that a payer can pay it. Error: [ErrPaid] where it is paid already, by an earlier
	// announcement whose answer never came: that is no refusal, the order is asked about.
	Prepay(ctx context.Context, o Order) (Prepaid, error)
	// Query asks what became of an order.
	Query(ctx context.Context, o Order) (Standing, error)
	// Close keeps an order from being paid any more. An order that the channel does not know, or has closed, is closed: no
	// error. Error: [ErrPaid] where it is paid.
	Close(ctx context.Context, o Order) error

	// Refund pays back a part of a payment or all of it.
	Refund(ctx context.Context, r Refund) (RefundStanding, error)
	// QueryRefund asks what became of a refund.
	QueryRefund(ctx context.Context, r Refund) (RefundStanding, error)

	// Share divides a part of a payment among receivers; with Finish what is not shared is the merchant's for good.
	Share(ctx context.Context, s Share) (ShareStanding, error)
	// QueryShare asks what became of a sharing and of each receiver.
	QueryShare(ctx context.Context, s Share) (ShareStanding, error)
	// FinishShare releases what is not shared to the merchant, and ends the sharing of the payment.
	FinishShare(ctx context.Context, s Share) (ShareStanding, error)
	// ReturnShare takes back from one receiver what it got.
	ReturnShare(ctx context.Context, r ShareReturn) (ReturnStanding, error)
	// QueryReturn asks what became of a return.
	QueryReturn(ctx context.Context, r ShareReturn) (ReturnStanding, error)

	// Bill downloads the channel's bill of a day, in the channel's zone. The reader gives the file as the channel made it,
	// checked against the channel's own hash where it tells one. Errors: [ErrBillNotReady], [ErrNoBill].
	Bill(ctx context.Context, date Date) (io.ReadCloser, error)

	// Check tries the account's keys and the way to the channel and says in plain words what it found. It changes nothing.
	Check(ctx context.Context) []Finding
}

// Order is an order as the channel is told of it.
type Order struct {
	OutTradeNo  string
	Amount      int64 // minor units of Currency by ISO 4217; an adapter turns them into the channel's
	Currency    string
	Description string
	// Method is how the payer pays, in the channel's own word; empty is the channel's default.
	Method string
	// CreatedAt is when the order was made here, before any call; zero where that is not known. A channel that forgets
	// numbers after a while (Stripe's idempotency keys live for a day) is asked before an older order is announced again.
	CreatedAt time.Time
	ExpiresAt time.Time
	// Payer is the payer in the channel's own identity (a WeChat openid, an Alipay buyer_id), where the method needs one.
	Payer string
	// ClientIP is the payer's address, where the method needs it.
	ClientIP string
	// ReturnURL is where a page sends the payer back to, where the method takes one.
	ReturnURL string
	// NotifyURL is where the channel shall send its callbacks.
	NotifyURL string
	// Shared says that the payment will be divided: WeChat Pay freezes only orders that said so.
	Shared bool
	// Reference is the channel's own number of the order, as [Prepaid] gave it; empty where that answer never came.
	Reference string
}

// Prepaid is what a payer's device needs.
type Prepaid struct {
	// Data is a JSON object: code_url, h5_url, pay parameters, client_secret, by method.
	Data json.RawMessage
	// Reference is the channel's own number of the order, for the channels that cannot be asked by ours.
	Reference string
}

// OrderState is what a channel says of an order.
type OrderState string

// The states of an order at a channel.
const (
	OrderUnknown OrderState = "UNKNOWN" // the channel has no such order
	OrderOpen    OrderState = "OPEN"    // it may still be paid
	OrderPaid    OrderState = "PAID"
	OrderClosed  OrderState = "CLOSED" // it cannot be paid any more
)

// Standing is what a channel says of an order. The body of a PAID order, given to [Account.Parse], is the same event that
// the callback is: it enters by the same door.
type Standing struct {
	State OrderState
	Body  []byte
}

// Refund names a refund to a channel.
type Refund struct {
	OutRefundNo string
	// TransactionID is the channel's number of the payment; OutTradeNo and Reference are as in [Order].
	TransactionID string
	OutTradeNo    string
	Reference     string
	Amount        int64 // minor units of Currency
	Total         int64 // of the payment
	Currency      string
	Reason        string
	NotifyURL     string
	// RefundID is the channel's number of the refund, for the channels that cannot be asked by ours; empty until it is known.
	RefundID string
}

// RefundState is what a channel says of a refund.
type RefundState string

// The states of a refund at a channel.
const (
	RefundUnknown   RefundState = "UNKNOWN" // the channel has no such refund: it was not done
	RefundPending   RefundState = "PENDING"
	RefundSucceeded RefundState = "SUCCEEDED"
	RefundRefused   RefundState = "FAILED"   // ended, and nothing was paid back
	RefundStuck     RefundState = "ABNORMAL" // stuck until a person acts in the channel's console; not an end
)

// RefundStanding is what a channel says of a refund.
type RefundStanding struct {
	State    RefundState
	RefundID string
	// Fee is the part of the channel's fee that came back with it, in minor units; nil where the channel does not tell.
	Fee *int64
	// Body, given to [Account.Parse], is the same event that the callback is; nil where the state is no end.
	Body []byte
	// Reason is the channel's word on a failure, for people.
	Reason string
}

// Share names a sharing to a channel.
type Share struct {
	OutOrderNo    string
	TransactionID string
	OutTradeNo    string
	Reference     string
	Currency      string
	Receivers     []ShareReceiver
	Finish        bool
	// ShareID is the channel's number of the sharing; empty until it is known.
	ShareID string
}

// ShareReceiver is one leg of a sharing.
type ShareReceiver struct {
	// Type and Account name the receiver in the channel's own way: MERCHANT_ID or PERSONAL_OPENID at WeChat Pay, userId at
	// Alipay, a connected account at Stripe.
	Type        string `json:"type,omitempty"`
	Account     string `json:"account"`
	Name        string `json:"name,omitempty"` // checked by the channel where it is told
	Amount      int64  `json:"amount"`         // minor units
	Description string `json:"description,omitempty"`
}

// LegState is what a channel says of one leg of a sharing.
type LegState string

// The states of a leg.
const (
	LegPending   LegState = "PENDING"
	LegSucceeded LegState = "SUCCEEDED"
	LegClosed    LegState = "CLOSED" // nothing was paid to this receiver
)

// ShareStanding is what a channel says of a sharing.
type ShareStanding struct {
	// Known is false where the channel has no such sharing: it was not done.
	Known   bool
	ShareID string
	Legs    []ShareLeg
	// Body, given to [Account.Parse], holds one event per leg that has ended.
	Body []byte
}

// Ended tells whether no leg will change any more.
func (s ShareStanding) Ended() bool {
	for _, leg := range s.Legs {
		if leg.State == LegPending {
			return false
		}
	}
	return s.Known
}

// ShareLeg is one leg as the channel tells it.
type ShareLeg struct {
	Account string
	Amount  int64
	State   LegState
	Reason  string // the channel's word on a closed leg
}

// ShareReturn names a return of one leg to a channel.
type ShareReturn struct {
	OutReturnNo string
	OutOrderNo  string
	ShareID     string
	// TransactionID, OutTradeNo and Reference are those of the payment that was shared: some channels know a return by it.
	TransactionID string
	OutTradeNo    string
	Reference     string
	Type          string
	Account       string
	Amount        int64
	Currency      string
	Reason        string
}

// ReturnState is what a channel says of a return.
type ReturnState string

// The states of a return.
const (
	ReturnUnknown   ReturnState = "UNKNOWN" // the channel has no such return: it was not done
	ReturnPending   ReturnState = "PENDING"
	ReturnSucceeded ReturnState = "SUCCEEDED"
	ReturnFailed    ReturnState = "FAILED"
)

// ReturnStanding is what a channel says of a return.
type ReturnStanding struct {
	State    ReturnState
	ReturnID string
	Reason   string
}

// Date is a day in the channel's zone.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// String gives YYYY-MM-DD.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// Finding is one thing that a check of an account looked at.
type Finding struct {
	OK   bool
	What string // what was looked at
	// Detail says what was found, and what to do where it is not right. It holds no secret.
	Detail string
}

// Rejection is a channel's definite refusal: nothing was done, and the same call will be refused again.
type Rejection struct {
	// Code is the channel's own code.
	Code string
	// Detail is the channel's own text, for people.
	Detail string
}

func (r *Rejection) Error() string {
	return fmt.Sprintf("the channel refused: %s: %s", r.Code, r.Detail)
}

var (
	// ErrPaid says that an order that shall be closed, or announced, is paid.
	ErrPaid = errors.New("the channel says that the order is paid")
	// ErrUnsupported says that the channel has no such call, or not for this order. It is definite.
	ErrUnsupported = errors.New("the channel cannot do this")
	// ErrUnproven says that a reply's signature does not hold: it says nothing.
	ErrUnproven = errors.New("the channel's reply is not signed by the channel")
	// ErrBillNotReady says that the bill of that day is not made yet: ask later.
	ErrBillNotReady = errors.New("the bill is not ready yet")
	// ErrNoBill says that nothing happened on that day, so that there is no bill.
	ErrNoBill = errors.New("there is no bill of that day")
)

// Definite tells whether an error means that nothing was done and that calling again changes nothing.
func Definite(err error) bool {
	var rejection *Rejection
	return errors.As(err, &rejection) || errors.Is(err, ErrUnsupported)
}

// FeeTeller is an [Acquirer] that tells the fee of a payment when it is asked, and not in the messages about the payment.
type FeeTeller interface {
	// AskFee asks for what is known of a transaction. What it gives is read by [Account.Parse] like a callback: the payment, and
	// its fee where the channel knows it by now.
	AskFee(ctx context.Context, transactionID string) (body []byte, err error)
}
