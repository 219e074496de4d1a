package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// Merchant is one tenant with its account at the channel.
type Merchant struct {
	Tenant  string `json:"tenant"`
	APIKey  string `json:"-"`
	Account string `json:"account"` // at the channel standard
	Secret  string `json:"-"`
	// Channel is the acquirer whose customer it is, Acquirer its account there.
	Channel  string `json:"channel"`
	Acquirer string `json:"acquirer"`

	sim simulator.Simulator
}

// Order is what a merchant asked for, and what it was told.
type Order struct {
	Tenant   string `json:"tenant"`
	Number   string `json:"number"`
	Scene    string `json:"scene"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Goods    int64  `json:"goods,omitempty"` // how many of the one sku
	Code     bool   `json:"code,omitempty"`
	Expires  int    `json:"expires,omitempty"` // seconds; 0: not in this run
	// Created says that the API confirmed it, Asked that it was asked.
	Asked   bool `json:"asked"`
	Created bool `json:"created"`
	// Close is what the merchant was told when it closed the order.
	Close Close `json:"close,omitempty"`
	// ClosedFirst says that the order was closed before any payment of it was reported.
	ClosedFirst bool `json:"closed_first,omitempty"`
}

// Sale is an order that is announced at an acquirer. What became of it there the acquirer itself remembers.
type Sale struct {
	Tenant   string `json:"tenant"`
	Number   string `json:"number"`
	Scene    string `json:"scene"`
	Channel  string `json:"channel"`
	Account  string `json:"account"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Asked    bool   `json:"asked"`
	Created  bool   `json:"created"`
	// Shared says that it will be divided, and how was frozen with it.
	Shared bool `json:"shared,omitempty"`
	// Paid says that the channel took the payer's money.
	Paid  bool  `json:"paid"`
	Close Close `json:"close,omitempty"`
}

// Refund is a part of a sale that goes back, named by its number.
type Refund struct {
	Tenant string `json:"tenant"`
	Number string `json:"number"`
	Order  string `json:"order"`
	Amount int64  `json:"amount"`
	// Answer is Accepted, or the code of the refusal; empty for one that never came.
	Answer string `json:"answer"`
}

// Share is the division of a sale among receivers, named by its number.
type Share struct {
	Tenant string `json:"tenant"`
	Number string `json:"number"`
	Order  string `json:"order"`
	Answer string `json:"answer"` // Accepted, or empty for one that never came
}

// Accepted is the answer to what is on its way.
const Accepted = "accepted"

// Close is the answer to a merchant's closing.
type Close string

// The answers; unknown is one that never came.
const (
	CloseUnknown Close = "unknown"
	CloseDone    Close = "closed"
	ClosePaid    Close = "already_paid"
)

// Report is one body that the channel sends, with its answers.
type Report struct {
	Tenant      string `json:"tenant"`
	Account     string `json:"account"`
	Kind        string `json:"kind"` // as in channel_events
	Transaction string `json:"transaction"`
	Order       string `json:"order"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Body        []byte `json:"-"`
	Sum         string `json:"sha256"`
	// Forged says that it is signed with a wrong key, or at a wrong time: it must be refused.
	Forged bool `json:"forged,omitempty"`
	// Contradicts says that it was first sent after another report of its transaction was acknowledged.
	Contradicts bool `json:"contradicts,omitempty"`

	Sent       int `json:"sent"`
	Acked      int `json:"acked"`      // 2xx
	Refused    int `json:"refused"`    // 4xx
	Failed     int `json:"failed"`     // 5xx
	Unanswered int `json:"unanswered"` // nobody there, or no answer in time
}

// Kinds of reports, as the table of events names them.
const (
	PaySuccess = "PAY_SUCCESS"
	PayFailed  = "PAY_FAILED"
	PayClosed  = "PAY_CLOSED"
)

// Transfer is a movement between a merchant's own accounts, named by its idempotency key.
type Transfer struct {
	Tenant   string `json:"tenant"`
	Key      string `json:"key"`
	Mode     string `json:"mode"`
	From     string `json:"from"`
	To       string `json:"to"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// TooMuch says that the payer cannot have that much; External, that a participant outside takes part; Refuses, that it
	// says no.
	TooMuch  bool `json:"too_much,omitempty"`
	External bool `json:"external,omitempty"`
	Refuses  bool `json:"refuses,omitempty"`

	Sent int `json:"sent"`
	// Answer is the definite answer: confirmed or the code of a refusal; empty for one that never came.
	Answer string `json:"answer"`
}

// Confirmed is the answer to a transfer that was carried out.
const Confirmed = "confirmed"

// Posting is a journal of a merchant's own, named by its key.
type Posting struct {
	Tenant   string `json:"tenant"`
	Key      string `json:"key"`
	From     string `json:"from"`
	To       string `json:"to"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Sent     int    `json:"sent"`
	Done     bool   `json:"done"`
}

// Record is what channel and merchants remember.
type Record struct {
	Merchants []*Merchant `json:"merchants"`
	Orders    []*Order    `json:"orders"`
	Reports   []*Report   `json:"reports"`
	Sales     []*Sale     `json:"sales"`
	Refunds   []*Refund   `json:"refunds"`
	Shares    []*Share    `json:"shares"`
	Transfers []*Transfer `json:"transfers"`
	Postings  []*Posting  `json:"postings"`
	// OnHand is what each tenant's shelf held at the beginning.
	OnHand map[string]int64 `json:"on_hand"`
	// Told is what the external participant was told, by the transfer's name.
	Told map[string]*Phases `json:"told"`
	// Strange are answers that nobody may get.
	Strange []string `json:"strange"`

	mu    sync.Mutex
	acks  []ack
	calls int
}

// NewRecord makes an empty record.
func NewRecord() *Record {
	return &Record{OnHand: map[string]int64{}, Told: map[string]*Phases{}}
}

// keep runs a change of the record by itself.
func (r *Record) keep(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *Record) addOrder(o *Order) *Order {
	r.keep(func() { r.Orders = append(r.Orders, o) })
	return o
}

func (r *Record) addReport(rep *Report) *Report {
	sum := sha256.Sum256(rep.Body)
	rep.Sum = hex.EncodeToString(sum[:])
	r.keep(func() { r.Reports = append(r.Reports, rep) })
	return rep
}

// answered notes one answer to a report.
func (r *Record) answered(rep *Report, a answer) {
	r.keep(func() {
		rep.Sent++
		switch {
		case a.status == 0:
			rep.Unanswered++
		case a.status < 300:
			rep.Acked++
			r.acks = append(r.acks, ack{a.by, span{a.began, a.began.Add(a.took)}})
		case a.status < 500:
			rep.Refused++
		default:
			rep.Failed++
		}
	})
}

// strange notes an answer that nobody may get; many of one kind are one fault, so only some are kept.
func (r *Record) strange(format string, args ...any) {
	r.keep(func() {
		if len(r.Strange) < maxStrange {
			r.Strange = append(r.Strange, fmt.Sprintf(format, args...))
		}
	})
}

const maxStrange = 100

// called counts a merchant's call.
func (r *Record) called() { r.keep(func() { r.calls++ }) }

// counts are the figures of progress lines.
func (r *Record) counts() (orders, acked, transfers int) {
	r.keep(func() {
		orders, transfers, acked = len(r.Orders)+len(r.Sales), len(r.Transfers)+len(r.Postings), len(r.acks)
	})
	return orders, acked, transfers
}

// ack is when an acknowledgement was waited for, and which API gave it.
type ack struct {
	by int
	span
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) meets(other span) bool { return s.from.Before(other.to) && other.from.Before(s.to) }

// patience is how long a channel waits at most: an answer that takes longer is as good as none.
const patience = 3 * time.Second

// ackTimes gives the median and the longest time of an acknowledgement, without those whose API was struck meanwhile, and how
// many of them were late.
func (r *Record) ackTimes(struck func(api int, s span) bool) (median, longest time.Duration, tooLate int) {
	var times []time.Duration
	r.keep(func() {
		for _, a := range r.acks {
			if took := a.to.Sub(a.from); !struck(a.by, a.span) {
				times = append(times, took)
				if took > patience {
					tooLate++
				}
			}
		}
	})
	if len(times) == 0 {
		return 0, 0, 0
	}
	slices.Sort(times)
	return times[len(times)/2], times[len(times)-1], tooLate
}
