// Package wechatpay plays WeChat Pay APIv3 over HTTP, for one merchant and its payers: it verifies requests, signs answers,
// keeps orders, refunds and sharings, sends encrypted notices, and makes the day's bill. Its keys are made with the first
// simulator of a process. It shares no code with the adapter.
package wechatpay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// The merchant that is played.
const (
	mchID = "1900000001"
	appID = "wx0000000000000001"
)

var chinaTime = time.FixedZone("UTC+8", 8*60*60)

// Simulator implements [simulator.Simulator].
type Simulator struct {
	core *simulator.Core
	keys keys
	mux  *http.ServeMux

	mu       sync.Mutex
	now      func() time.Time
	serial   int
	orders   map[string]*order
	sequence []*order // oldest first
	refunds  map[string]*refund
	shares   map[string]*share
	returns  map[string]*shareReturn
	bills    map[string]bill // by token
	noBills  bool
}

var _ simulator.Simulator = (*Simulator)(nil)

// New makes a simulator.
func New() *Simulator {
	s := &Simulator{
		core: simulator.NewCore(), keys: processKeys(), mux: http.NewServeMux(), now: time.Now,
		orders: map[string]*order{}, refunds: map[string]*refund{}, shares: map[string]*share{}, returns: map[string]*shareReturn{}, bills: map[string]bill{},
	}
	s.routes()
	return s
}

// Name implements [simulator.Simulator].
func (s *Simulator) Name() string { return "wechatpay" }

// Core implements [simulator.Simulator].
func (s *Simulator) Core() *simulator.Core { return s.core }

// Handler implements [simulator.Simulator].
func (s *Simulator) Handler() http.Handler { return s.mux }

// SetClock replaces the clock that orders, refunds and bills are dated by; signatures keep the real one.
func (s *Simulator) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// HoldBills makes bills be still in the making, or ready again.
func (s *Simulator) HoldBills(hold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noBills = hold
}

// Config implements [simulator.Simulator]: both certificates and the public key are live together.
func (s *Simulator) Config(baseURL string) json.RawMessage {
	config, err := json.Marshal(map[string]any{
		"mch_id": mchID, "app_id": appID, "api_v3_key": s.keys.apiV3, "merchant_serial": s.keys.merchantSerial,
		"merchant_private_key":  s.keys.merchantPEM(),
		"public_keys":           map[string]string{s.keys.public.id: s.keys.publicPEM()},
		"platform_certificates": map[string]string{s.keys.old.id: certificatePEM(s.keys.old.der), s.keys.fresh.id: certificatePEM(s.keys.fresh.der)},
		"base_url":              baseURL,
	})
	if err != nil {
		panic(err) // strings always marshal
	}
	return config
}

// Orders implements [simulator.Simulator].
func (s *Simulator) Orders() []simulator.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []simulator.Order
	for _, o := range s.sequence {
		state := "OPEN"
		switch s.tradeState(o) {
		case "CLOSED":
			state = "CLOSED"
		case "SUCCESS", "REFUND":
			state = "PAID"
		}
		list = append(list, simulator.Order{
			OutTradeNo: o.OutTradeNo, TransactionID: o.transactionID, Amount: o.Amount.Total, Currency: "CNY", State: state, Refunded: s.refunded(o, "SUCCESS"),
		})
	}
	return list
}

// Pay implements [simulator.Simulator].
func (s *Simulator) Pay(outTradeNo string) error { return s.PayWithCoupon(outTradeNo, 0) }

// PayWithCoupon lets the payer pay an order with a coupon of so many fen, which the merchant gave.
func (s *Simulator) PayWithCoupon(outTradeNo string, coupon int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[outTradeNo]
	if !ok {
		return errors.New("there is no such order")
	}
	if state := s.tradeState(o); state != "NOTPAY" {
		return fmt.Errorf("the order is %s", state)
	}
	if coupon < 0 || coupon >= o.Amount.Total {
		return errors.New("a coupon pays a part of the order")
	}
	o.paidAt, o.coupon = s.now(), coupon
	o.transactionID = s.number("42000", o.paidAt)
	if o.SettleInfo != nil && o.SettleInfo.ProfitSharing {
		o.frozen = o.Amount.Total
	}
	s.notify(o.NotifyURL, "TRANSACTION.SUCCESS", "transaction", "支付成功", s.transaction(o))
	return nil
}

// number makes a number of WeChat Pay's: 28 digits that begin with a kind and a date.
func (s *Simulator) number(kind string, at time.Time) string {
	s.serial++
	return kind + at.In(chinaTime).Format("20060102") + fmt.Sprintf("%0*d", 28-len(kind)-8, s.serial)
}

func rfc3339(t time.Time) string { return t.In(chinaTime).Format(time.RFC3339) }

// answer is what a call answers before it is signed.
type answer struct {
	status int
	body   any // nil: none
}

func ok(body any) answer { return answer{http.StatusOK, body} }

func fail(status int, code, message string) answer {
	return answer{status, map[string]string{"code": code, "message": message}}
}

var noContent = answer{http.StatusNoContent, nil}

// routes maps the API's paths. Each call has a kind, by which faults are limited, and the merchant's number that it names.
func (s *Simulator) routes() {
	on := func(pattern, kind, number string, work func(r *http.Request, body []byte) answer) {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, kind, number, work) })
	}
	on("POST /v3/pay/transactions/{method}", "prepay", "out_trade_no", s.prepay)
	on("GET /v3/pay/transactions/out-trade-no/{out_trade_no}", "query", "out_trade_no", s.query)
	on("POST /v3/pay/transactions/out-trade-no/{out_trade_no}/close", "close", "out_trade_no", s.close)
	on("POST /v3/refund/domestic/refunds", "refund", "out_refund_no", s.refund)
	on("GET /v3/refund/domestic/refunds/{out_refund_no}", "query_refund", "out_refund_no", s.queryRefund)
	on("POST /v3/profitsharing/orders", "share", "out_order_no", s.share)
	on("GET /v3/profitsharing/orders/{out_order_no}", "query_share", "out_order_no", s.queryShare)
	on("POST /v3/profitsharing/orders/unfreeze", "finish_share", "out_order_no", s.unfreeze)
	on("POST /v3/profitsharing/return-orders", "return_share", "out_return_no", s.returnShare)
	on("GET /v3/profitsharing/return-orders/{out_return_no}", "query_return", "out_return_no", s.queryReturn)
	on("GET /v3/bill/tradebill", "bill", "bill_date", s.tradeBill)
	on("GET /v3/certificates", "certificates", "", s.certificates)
	s.mux.HandleFunc("GET /v3/billdownload/file", s.download)
}

func (s *Simulator) serve(w http.ResponseWriter, r *http.Request, kind, numberField string, work func(*http.Request, []byte) answer) {
	body, err := readBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.core.Serve(w, kind, numberOf(r, body, numberField), func() *simulator.Answer {
		if problem := s.keys.authorized(r, body); problem != "" {
			return s.signed(r, fail(http.StatusUnauthorized, "SIGN_ERROR", problem))
		}
		return s.signed(r, s.locked(func() answer { return work(r, body) }))
	}, func(a *simulator.Answer) {
		// A signature that is well-formed, of the right key, and of other bytes.
		a.Header.Set("Wechatpay-Signature", s.keys.byID(a.Header.Get("Wechatpay-Serial")).sign(
			a.Header.Get("Wechatpay-Timestamp"), a.Header.Get("Wechatpay-Nonce"), string(a.Body)+" "))
	})
}

// locked works on the state alone.
func (s *Simulator) locked(work func() answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return work()
}

// numberOf finds the merchant's number in the path, the query or the body.
func numberOf(r *http.Request, body []byte, field string) string {
	if v := r.PathValue(field); v != "" {
		return v
	}
	if v := r.URL.Query().Get(field); v != "" {
		return v
	}
	var fields map[string]any
	_ = json.Unmarshal(body, &fields) // a body that is none names no number
	v, _ := fields[field].(string)
	return v
}

// signed signs an answer with the key that the request names, or with the new certificate's.
func (s *Simulator) signed(r *http.Request, a answer) *simulator.Answer {
	var body []byte
	if a.body != nil {
		var err error
		if body, err = json.Marshal(a.body); err != nil {
			panic(err) // the answers are made here
		}
	}
	key := s.keys.byID(r.Header.Get("Wechatpay-Serial"))
	header := key.headers(body, time.Now())
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Request-ID", strings.ToUpper(nonce(12))+"-0")
	return &simulator.Answer{Status: a.status, Header: header, Body: body}
}
