// Package alipay simulates Alipay's gateway: one address, signed forms in, signed JSON out, notices by form. It checks what it
// is sent as Alipay does, and keeps what Alipay keeps: trades, refunds and sharings by the merchant's numbers.
//
// What it does as the real one and a payer may not expect: an announced code is no trade before it is scanned, so it can be
// neither asked for nor closed, and stays payable; a page is announced when the payer opens it; a refund's notice comes to
// the payment's address.
package alipay

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// The merchant of this Alipay.
const (
	appID    = "2021000000000001"
	sellerID = "2088000000000001"
)

var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

const timeLayout = "2006-01-02 15:04:05"

// Quirks are what the real one does at times, beside the faults that every simulator has.
type Quirks struct {
	// Charset of notices: GBK; empty is utf-8.
	Charset string
	// Coupon is what Alipay pays of each payment in the payer's place, in minor units.
	Coupon int64
	// SilentRefunds sends no notices of refunds, as is reported of full ones.
	SilentRefunds bool
	// MostShared is how many percent of a payment may be shared; 0 is all of it. Alipay's usual bound is 30.
	MostShared int64
	// Bound are receivers that are bound already; the others must be bound by a call before their first share.
	Bound []string
}

// Simulator implements [simulator.Simulator]. It is safe for use by many goroutines.
type Simulator struct {
	core        *simulator.Core
	app, alipay *rsa.PrivateKey
	old, wrong  func() *rsa.PrivateKey // made when they are needed
	signType    string

	mu      sync.Mutex
	quirks  Quirks
	now     func() time.Time
	base    string
	numbers int
	orders  []*order
	bound   map[string]bool
}

// New makes an Alipay with keys of its own: the app's pair, Alipay's, the one that Alipay had before, and a stranger's.
func New() *Simulator {
	return &Simulator{
		core: simulator.NewCore(), signType: "RSA2", now: time.Now, bound: map[string]bool{},
		app: newKey(), alipay: newKey(), old: sync.OnceValue(newKey), wrong: sync.OnceValue(newKey),
	}
}

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the machine has no randomness
	}
	return key
}

// Name implements [simulator.Simulator].
func (*Simulator) Name() string { return "alipay" }

// Core implements [simulator.Simulator].
func (s *Simulator) Core() *simulator.Core { return s.core }

// Quirk replaces the quirks.
func (s *Simulator) Quirk(q Quirks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quirks = q
	for _, account := range q.Bound {
		s.bound[account] = true
	}
}

// SignType sets the app up with RSA instead of RSA2; before anything else is done with it.
func (s *Simulator) SignType(name string) { s.signType = name }

// Clock makes what happens happen at another time; notices are sent at the real one.
func (s *Simulator) Clock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Config implements [simulator.Simulator].
func (s *Simulator) Config(baseURL string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = baseURL
	public, err := x509.MarshalPKIXPublicKey(&s.alipay.PublicKey)
	if err != nil {
		panic(err) // an RSA key always marshals
	}
	config, err := json.Marshal(map[string]string{
		"app_id": appID, "seller_id": sellerID, "sign_type": s.signType, "base_url": baseURL + "/gateway.do",
		"app_private_key":   base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PrivateKey(s.app)),
		"alipay_public_key": base64.StdEncoding.EncodeToString(public),
	})
	if err != nil {
		panic(err) // texts always marshal
	}
	return config
}

// Handler implements [simulator.Simulator].
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /gateway.do", s.serve)
	mux.HandleFunc("GET /gateway.do", s.open)
	mux.HandleFunc("GET /downloadBillFile.resource", s.download)
	return mux
}

// A trade's states; statusCode is a code that nobody has scanned.
const (
	statusCode     = ""
	statusWaiting  = "WAIT_BUYER_PAY"
	statusSuccess  = "TRADE_SUCCESS"
	statusFinished = "TRADE_FINISHED"
	statusClosed   = "TRADE_CLOSED"
)

type order struct {
	outTradeNo, tradeNo, subject, notifyURL string
	amount, payer                           int64
	status                                  string
	createdAt, paidAt, closedAt             time.Time
	refunds                                 []*refund
	shares                                  []*share
	shareMode                               string // the first sharing sets it
	shareFinished                           bool
}

type refund struct {
	number  string
	amount  int64
	reason  string
	done    bool
	at      time.Time
	returns []takenBack
}

type takenBack struct {
	account string
	amount  int64
}

type share struct {
	number, settleNo, content string
	legs                      []*leg
	at                        time.Time
}

type leg struct {
	account string
	amount  int64
	state   string // PROCESSING, SUCCESS, FAIL
	at      time.Time
}

// refunded is what went back, and what is on its way back where pending counts.
func (o *order) refunded(pending bool) (sum int64) {
	for _, r := range o.refunds {
		if r.done || pending {
			sum += r.amount
		}
	}
	return sum
}

func (o *order) refund(number string) *refund {
	for _, r := range o.refunds {
		if r.number == number {
			return r
		}
	}
	return nil
}

func (s *Simulator) find(tradeNo, outTradeNo string) *order {
	for _, o := range s.orders {
		if tradeNo != "" && o.tradeNo == tradeNo || tradeNo == "" && outTradeNo != "" && o.outTradeNo == outTradeNo {
			return o
		}
	}
	return nil
}

// number makes a number of 28 digits, as Alipay's are.
func (s *Simulator) number() string {
	s.numbers++
	return fmt.Sprintf("%s22%018d", s.now().In(shanghai).Format("20060102"), s.numbers)
}

// Orders implements [simulator.Simulator].
func (s *Simulator) Orders() []simulator.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []simulator.Order{}
	for _, o := range s.orders {
		state := "PAID"
		switch {
		case o.status == statusCode || o.status == statusWaiting:
			state = "OPEN"
		case o.paidAt.IsZero():
			state = "CLOSED"
		}
		list = append(list, simulator.Order{OutTradeNo: o.outTradeNo, TransactionID: o.tradeNo, Amount: o.amount, Currency: "CNY", State: state, Refunded: o.refunded(false)})
	}
	return list
}

// Scan lets a payer scan a code, which makes a trade of it.
func (s *Simulator) Scan(outTradeNo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.find("", outTradeNo)
	if o == nil || o.status != statusCode {
		return errors.New("there is no such code to scan")
	}
	s.scan(o)
	return nil
}

func (s *Simulator) scan(o *order) {
	o.status, o.tradeNo = statusWaiting, s.number()
}

// Pay implements [simulator.Simulator].
func (s *Simulator) Pay(outTradeNo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.find("", outTradeNo)
	if o == nil {
		return errors.New("no such order was announced; a page announces it when it is opened")
	}
	if o.status == statusCode {
		s.scan(o)
	}
	if o.status != statusWaiting {
		return fmt.Errorf("the order is %s", o.status)
	}
	o.status, o.paidAt, o.payer = statusSuccess, s.now(), max(o.amount-s.quirks.Coupon, 0)
	s.notify(o, nil)
	return nil
}

// Finish ends the time in which a payment can be refunded, and says so: "paid", a second time.
func (s *Simulator) Finish(outTradeNo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.find("", outTradeNo)
	if o == nil || o.status != statusSuccess {
		return errors.New("there is no such payment")
	}
	o.status = statusFinished
	s.notify(o, nil)
	return nil
}

// Expire ends the time in which an order can be paid.
func (s *Simulator) Expire(outTradeNo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.find("", outTradeNo)
	switch {
	case o != nil && o.status == statusWaiting:
		s.close(o)
		return nil
	case o != nil && o.status == statusCode: // it never was a trade: nobody hears of it
		s.orders = slices.DeleteFunc(s.orders, func(other *order) bool { return other == o })
		return nil
	}
	return errors.New("there is no such open order")
}

func (s *Simulator) close(o *order) {
	o.status, o.closedAt = statusClosed, s.now()
	s.notify(o, nil)
}

// SettleRefund implements [simulator.Simulator]. Alipay has no refunds that wait for a person.
func (s *Simulator) SettleRefund(outRefundNo, state string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		r := o.refund(outRefundNo)
		switch {
		case r == nil:
			continue
		case r.done:
			return errors.New("the refund is done")
		case state == "SUCCEEDED":
			s.carryOut(o, r)
			return nil
		case state == "FAILED": // Alipay forgets it
			o.refunds = slices.DeleteFunc(o.refunds, func(other *refund) bool { return other == r })
			return nil
		}
		return errors.New("a refund ends as SUCCEEDED or FAILED at Alipay")
	}
	return errors.New("there is no such refund")
}

// carryOut ends a refund; the last one closes the trade.
func (s *Simulator) carryOut(o *order, r *refund) {
	r.done, r.at = true, s.now()
	if o.refunded(false) == o.amount {
		o.status, o.closedAt = statusClosed, s.now()
	}
	if r.amount > 0 && !s.quirks.SilentRefunds {
		s.notify(o, r)
	}
}

// SettleShare implements [simulator.Simulator].
func (s *Simulator) SettleShare(outOrderNo string, closed ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		for _, sh := range o.shares {
			if sh.number != outOrderNo {
				continue
			}
			for _, l := range sh.legs {
				if l.state != "PROCESSING" {
					continue
				}
				l.state, l.at = "SUCCESS", s.now()
				if slices.Contains(closed, l.account) {
					l.state = "FAIL"
				}
			}
			return nil
		}
	}
	return errors.New("there is no such sharing")
}
