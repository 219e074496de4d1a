// Package channel says what a payment channel is to paylatch: something that sends signed notifications to a callback
// endpoint, which it turns into events. Each channel is one folder below this one and one line in the registry; each
// passes the suite in channeltest.
//
// An adapter answers two questions and no other: is this message authentic (Verify), and what does it say (Parse). What
// the facts mean for an order is decided by internal/payment, the same way for every channel.
package channel

import (
	"net/http"
	"time"
)

// Channel is one kind of acquirer.
type Channel interface {
	// Name is the channel's name in callback URLs and event keys: lower-case letters.
	Name() string
	// Open reads an account's configuration (JSON, described in the docs). It refuses, in plain words and without
	// quoting secrets, whatever could not verify a message: a missing, empty or short key, a key of the wrong type.
	Open(account string, config []byte) (Account, error)
	// Accepted is the answer that stops the channel from sending again.
	Accepted() Ack
	// Refused is the answer, with a status of 400 or above, that makes the channel send again or give up.
	Refused(status int, code, detail string) Ack
}

// Sample is a payment that a [Sender] reports.
type Sample struct {
	TransactionID string
	OutTradeNo    string
	Amount        int64 // minor units
	Currency      string
	OccurredAt    time.Time
}

// Sender is a channel whose success message paylatch can make itself, under the keys of an account's configuration: for
// paylatch send, for the demo and for benchmarks. Only channels whose key is shared between both sides can be one.
type Sender interface {
	Channel
	// Compose makes the body; the same sample gives the same bytes.
	Compose(s Sample) ([]byte, error)
	// Sign gives the headers of a body that is sent at a time.
	Sign(config, body []byte, at time.Time) (http.Header, error)
}

// Account is one configured account of a channel. It is safe for use by many goroutines.
type Account interface {
	// Identity is the channel's own identity of the account, which no two accounts may share.
	Identity() string
	// Verify proves that the channel sent this message to this account, over the bytes as received, and that it was
	// fresh when it was received. Error: [*Refusal].
	Verify(n Notification) error
	// Parse reads the events out of an authentic body. It needs no headers, so that a stored body can be read again.
	// Error: [*Unusable]. Callers use [Read], which also checks what comes out.
	Parse(body []byte) ([]Event, error)
}

// Notification is one message as it was received.
type Notification struct {
	Header     http.Header
	Body       []byte
	ReceivedAt time.Time
}

// Ack is a channel's own form of an answer.
type Ack struct {
	Status      int
	ContentType string
	Body        []byte
}

// Refusal says why a message is not authentic.
type Refusal struct {
	// Status is the HTTP status of the answer, 400 to 499.
	Status int
	// Code is stable, for machines.
	Code string
	// Detail is for people and holds nothing secret.
	Detail string
}

func (r *Refusal) Error() string { return r.Detail }

// Refusals that every channel can need.
var (
	ErrNoSignature  = &Refusal{http.StatusBadRequest, "signature_missing", "the signature headers are missing"}
	ErrTwoHeaders   = &Refusal{http.StatusBadRequest, "signature_ambiguous", "a signature header stands more than once"}
	ErrBadTimestamp = &Refusal{http.StatusBadRequest, "timestamp_malformed", "the timestamp is not a number of seconds"}
	ErrStale        = &Refusal{http.StatusUnauthorized, "timestamp_stale", "the timestamp is more than 300 s in the past"}
	ErrFuture       = &Refusal{http.StatusUnauthorized, "timestamp_future", "the timestamp is more than 300 s in the future"}
	ErrBadSignature = &Refusal{http.StatusUnauthorized, "signature_invalid", "no signature matches the body under any of the account's keys"}
)

// Window is how far a message's time may be from ours, both ways.
const Window = 300 * time.Second

// CheckFresh refuses a time outside the [Window] around the moment of receipt.
func CheckFresh(sent, received time.Time) error {
	switch {
	case received.Sub(sent) > Window:
		return ErrStale
	case sent.Sub(received) > Window:
		return ErrFuture
	}
	return nil
}

// Unusable says why an authentic body cannot be turned into events. It is stored and parked, and acknowledged.
type Unusable struct {
	// Reason is for people and holds nothing secret.
	Reason string
}

func (u *Unusable) Error() string { return u.Reason }
