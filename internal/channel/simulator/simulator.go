// Package simulator is what the channels' simulators share: each speaks its channel's real protocol over HTTP, with keys of
// its own, and misbehaves on request. They share no code with the adapters that they test.
package simulator

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Simulator is one channel's.
type Simulator interface {
	// Name is the channel's name.
	Name() string
	// Handler serves the channel's API.
	Handler() http.Handler
	// Config gives the account's configuration for paylatch, with this base URL.
	Config(baseURL string) json.RawMessage
	// Orders lists what was announced, oldest first.
	Orders() []Order
	// Pay lets the payer pay an order and sends the notice. Error: where the channel would not take the payment.
	Pay(outTradeNo string) error
	// SettleRefund ends a refund that is pending: SUCCEEDED, FAILED or ABNORMAL (see channel.RefundState), and sends the
	// notice where the channel does.
	SettleRefund(outRefundNo, state string) error
	// SettleShare ends the legs of a sharing that are pending; closed names the receivers that get nothing.
	SettleShare(outOrderNo string, closed ...string) error
	// Core gives what the simulators share.
	Core() *Core
}

// Order is an order for people and tests.
type Order struct {
	OutTradeNo    string `json:"out_trade_no"`
	TransactionID string `json:"transaction_id,omitempty"`
	Amount        int64  `json:"amount"` // minor units by ISO 4217
	Currency      string `json:"currency"`
	State         string `json:"state"` // OPEN, PAID, CLOSED
	Refunded      int64  `json:"refunded"`
}

// Faults is how a simulator misbehaves. Counts go down with each use; the zero value behaves.
type Faults struct {
	// Delay is waited before each answer.
	Delay time.Duration `json:"delay,omitempty"`
	// Refuse answers so many calls with 500 and does nothing.
	Refuse int `json:"refuse,omitempty"`
	// Drop does the work of so many calls, and closes the connection without an answer.
	Drop int `json:"drop,omitempty"`
	// Garble does the work of so many calls, and answers with a signature that does not hold.
	Garble int `json:"garble,omitempty"`
	// Only limits the three above to calls of one kind: prepay, query, close, refund, query_refund, share, query_share,
	// finish_share, return_share, query_return, bill. Empty: all.
	Only string `json:"only,omitempty"`
	// Hold keeps refunds and sharings pending until they are settled by request.
	Hold bool `json:"hold,omitempty"`

	// NoticeTimes sends each notice so often at once; 0 is once.
	NoticeTimes int `json:"notice_times,omitempty"`
	// Withhold keeps notices back until Flush.
	Withhold bool `json:"withhold,omitempty"`
	// Reverse makes Flush send the last notice first.
	Reverse bool `json:"reverse,omitempty"`
	// SignWith names the key of the notices, by channel: old, new, public, wrong; probe is a message that was never signed
	// for real. Empty: the channel's usual key.
	SignWith string `json:"sign_with,omitempty"`
}

// Call is one call that came.
type Call struct {
	Kind   string `json:"kind"`
	Number string `json:"number"` // the merchant's number that it named
}

// Sent is one notice and how it was answered.
type Sent struct {
	URL    string `json:"url"`
	Body   []byte `json:"body"`
	Status int    `json:"status"` // 0 without an answer
	Answer string `json:"answer"`
}

// Core counts, misbehaves and sends notices. The zero value is not ready: use [NewCore].
type Core struct {
	mu     sync.Mutex
	faults Faults
	calls  []Call
	sent   []Sent
	held   []notice
	client *http.Client
	wg     sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc
}

// NewCore makes a core that behaves.
func NewCore() *Core {
	ctx, stop := context.WithCancel(context.Background())
	return &Core{client: &http.Client{Timeout: 10 * time.Second, Transport: http.DefaultTransport.(*http.Transport).Clone()}, ctx: ctx, stop: stop}
}

// Misbehave replaces the faults.
func (c *Core) Misbehave(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// Faults gives the faults as they stand.
func (c *Core) Faults() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

// Calls lists the calls of a kind, or all where it is empty.
func (c *Core) Calls(kind string) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Call
	for _, call := range c.calls {
		if kind == "" || call.Kind == kind {
			list = append(list, call)
		}
	}
	return list
}

// Sent lists the notices that were sent.
func (c *Core) Sent() []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// Serve carries out a call under the faults: work does it and gives the answer, garble spoils the answer's signature.
func (c *Core) Serve(w http.ResponseWriter, kind, number string, work func() *Answer, garble func(*Answer)) {
	c.mu.Lock()
	c.calls = append(c.calls, Call{kind, number})
	f := &c.faults
	delay := f.Delay
	applies := f.Only == "" || f.Only == kind
	take := func(n *int) bool {
		if !applies || *n == 0 {
			return false
		}
		*n--
		return true
	}
	refuse := take(&f.Refuse)
	drop := !refuse && take(&f.Drop)
	spoil := !refuse && !drop && take(&f.Garble)
	c.mu.Unlock()

	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-c.ctx.Done():
		}
	}
	if refuse {
		http.Error(w, "the simulator fails on request", http.StatusInternalServerError)
		return
	}
	answer := work()
	if drop {
		// The work is done; its answer never arrives.
		panic(http.ErrAbortHandler)
	}
	if spoil {
		garble(answer)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // a caller that hung up has its reasons
}

// Answer is an answer to a call.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Message is one attempt to tell something: signed at the moment of sending, under the key that the faults name.
type Message func(signWith string, at time.Time) (http.Header, []byte)

type notice struct {
	url     string
	message Message
}

// Notify sends a notice in the background, as often and in the order that the faults say. An empty URL sends nothing.
func (c *Core) Notify(url string, message Message) {
	if url == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults.Withhold {
		c.held = append(c.held, notice{url, message})
		return
	}
	c.launch(notice{url, message}, max(1, c.faults.NoticeTimes), c.faults.SignWith)
}

// Flush sends what was withheld, one after another, and waits for the answers.
func (c *Core) Flush() {
	c.mu.Lock()
	held, f := c.held, c.faults
	c.held = nil
	c.mu.Unlock()
	if f.Reverse {
		slices.Reverse(held)
	}
	for _, n := range held {
		for range max(1, f.NoticeTimes) {
			c.send(n, f.SignWith)
		}
	}
}

// Wait returns when all notices that were begun have an answer.
func (c *Core) Wait() { c.wg.Wait() }

// Close ends what is still being sent.
func (c *Core) Close() {
	c.stop()
	c.wg.Wait()
	c.client.CloseIdleConnections()
}

func (c *Core) launch(n notice, times int, signWith string) {
	for range times {
		c.wg.Go(func() { c.send(n, signWith) })
	}
}

// A notice that is not acknowledged is sent again a few times, faster than any real channel does.
const (
	sendAttempts = 6
	sendEvery    = 500 * time.Millisecond
)

func (c *Core) send(n notice, signWith string) {
	for attempt := range sendAttempts {
		if attempt > 0 {
			select {
			case <-time.After(sendEvery):
			case <-c.ctx.Done():
				return
			}
		}
		header, body := n.message(signWith, time.Now())
		status, answer := c.post(n.url, header, body)
		c.mu.Lock()
		c.sent = append(c.sent, Sent{n.url, body, status, answer})
		c.mu.Unlock()
		if status >= 200 && status < 300 {
			return
		}
	}
}
