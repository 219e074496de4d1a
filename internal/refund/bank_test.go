package refund_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// bank is an acquirer whose every answer a test decides. Its messages are the events themselves, as JSON.
type bank struct {
	mu      sync.Mutex
	refunds map[string]*banked
	calls   []string // "refund NUMBER" and "query NUMBER", in their order
	// hold leaves new refunds pending; away makes no call arrive; drop does what is asked and gives no answer; reject refuses new
	// refunds for good.
	hold, away, drop bool
	reject           string
	// late keeps the bank from knowing, when asked, of what it does. before runs ahead of the next call.
	late   bool
	before func()
	// orders is what the bank says of orders, by their numbers.
	orders map[string]channel.Standing
	fee    *int64
}

type banked struct {
	channel.Refund
	state channel.RefundState
}

const bankName = "bank"

func newBank() *bank {
	return &bank{refunds: map[string]*banked{}, orders: map[string]channel.Standing{}}
}

// Name implements [channel.Channel].
func (*bank) Name() string { return bankName }

// Open implements [channel.Channel].
func (b *bank) Open(name string, _ []byte) (channel.Account, error) {
	return &bankAccount{bank: b, name: name}, nil
}

// Accepted implements [channel.Channel].
func (*bank) Accepted() channel.Ack { return channel.Ack{Status: http.StatusOK} }

// Refused implements [channel.Channel].
func (*bank) Refused(status int, _, _ string) channel.Ack { return channel.Ack{Status: status} }

func (b *bank) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.calls...)
}

// set changes the bank as a test wants it.
func (b *bank) set(change func(b *bank)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// settle ends a refund at the bank, or reopens it.
func (b *bank) settle(number string, state channel.RefundState) {
	b.set(func(b *bank) { b.refunds[number].state = state })
}

type bankAccount struct {
	channel.Acquirer // the calls that refunds do not make
	bank             *bank
	name             string
}

func (a *bankAccount) Identity() string                  { return a.name }
func (a *bankAccount) Verify(channel.Notification) error { return nil }
func (a *bankAccount) Parse(body []byte) (events []channel.Event, err error) {
	if err := json.Unmarshal(body, &events); err != nil {
		return nil, &channel.Unusable{Reason: "not the bank's"}
	}
	return events, nil
}

func bankBody(events ...channel.Event) []byte {
	body, err := json.Marshal(events)
	if err != nil {
		panic(err) // plain structs
	}
	return body
}

var errAway = errors.New("the bank did not answer")

func (a *bankAccount) Refund(_ context.Context, r channel.Refund) (channel.RefundStanding, error) {
	b := a.bank
	if b.before != nil {
		b.before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, "refund "+r.OutRefundNo)
	switch {
	case b.away:
		return channel.RefundStanding{}, errAway
	case b.reject != "":
		return channel.RefundStanding{}, &channel.Rejection{Code: b.reject, Detail: "no"}
	}
	there, known := b.refunds[r.OutRefundNo]
	if !known {
		there = &banked{r, channel.RefundSucceeded}
		if b.hold {
			there.state = channel.RefundPending
		}
		b.refunds[r.OutRefundNo] = there
	}
	if b.drop {
		return channel.RefundStanding{}, errAway
	}
	return b.standing(there), nil
}

func (a *bankAccount) QueryRefund(_ context.Context, r channel.Refund) (channel.RefundStanding, error) {
	b := a.bank
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, "query "+r.OutRefundNo)
	if b.away {
		return channel.RefundStanding{}, errAway
	}
	there, known := b.refunds[r.OutRefundNo]
	if !known || b.late {
		return channel.RefundStanding{State: channel.RefundUnknown}, nil
	}
	return b.standing(there), nil
}

func (a *bankAccount) Query(_ context.Context, o channel.Order) (channel.Standing, error) {
	b := a.bank
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, "order "+o.OutTradeNo)
	if b.away {
		return channel.Standing{}, errAway
	}
	return b.orders[o.OutTradeNo], nil
}

func (b *bank) standing(r *banked) channel.RefundStanding {
	s := channel.RefundStanding{State: r.state, RefundID: "b-" + r.OutRefundNo}
	switch r.state {
	case channel.RefundSucceeded:
		s.Fee = b.fee
		s.Body = bankBody(refundEvent(channel.RefundSuccess, r.OutRefundNo, r.TransactionID, r.Amount))
	case channel.RefundRefused:
		s.Body = bankBody(refundEvent(channel.RefundFailed, r.OutRefundNo, r.TransactionID, r.Amount))
	}
	return s
}

// refundEvent is what the bank reports of a refund under our number.
func refundEvent(kind channel.Kind, number, transaction string, amount int64) channel.Event {
	return channel.Event{
		Kind: kind, Subject: "b-" + number, TransactionID: transaction, OutNo: number, Amount: amount, Currency: "CNY",
		OccurredAt: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC),
	}
}

// Bill is none of the refunds' business.
func (a *bankAccount) Bill(context.Context, channel.Date) (io.ReadCloser, error) {
	return nil, channel.ErrUnsupported
}
