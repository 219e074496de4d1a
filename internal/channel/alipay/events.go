package alipay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
)

// Parse implements [channel.Account]. A body is a notice, or the answer to a question of ours as it came: the same fact is
// the same event, whichever told it.
func (a *account) Parse(body []byte) ([]channel.Event, error) {
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return parseAnswer(body)
	}
	return a.parseNotice(body)
}

// trade_status as Alipay tells it.
const (
	statusWaiting  = "WAIT_BUYER_PAY"
	statusSuccess  = "TRADE_SUCCESS"
	statusFinished = "TRADE_FINISHED" // paid, and past the time in which it could be refunded
	statusClosed   = "TRADE_CLOSED"   // not paid in time, closed, or paid and refunded in full
)

// trade is what a notice or an answer says of a trade.
type trade struct {
	tradeNo, outTradeNo, status     string
	total, payer, currency          string
	paidAt, closedAt                string
	outBizNo, refundFee, refundedAt string
	mismatch                        string
	asked                           bool // it is an answer, and knows of no single refund
}

func (t trade) event() (channel.Event, error) {
	e := channel.Event{Subject: t.tradeNo, TransactionID: t.tradeNo, OutTradeNo: t.outTradeNo, Mismatch: t.mismatch}
	if t.tellsOfRefund() {
		return t.hint(e)
	}
	var at string
	switch t.status {
	case statusSuccess, statusFinished:
		e.Kind, at = channel.PaySuccess, t.paidAt
	case statusClosed:
		e.Kind, at = channel.PayClosed, t.closedAt
		if t.paidAt != "" {
			e.Note = "it was paid, and refunded in full"
		}
	case statusWaiting:
		return channel.Event{Kind: channel.Unsupported, Note: "trade_status " + statusWaiting}, nil
	case "":
		return e, &channel.Unusable{Reason: "it has no trade_status"}
	default:
		return e, &channel.Unusable{Reason: "its trade_status " + quoted(t.status) + " is none that is known"}
	}
	var err error
	if e.OccurredAt, err = parseTime(at); err != nil {
		return e, err
	}
	return e, t.amounts(&e)
}

// tellsOfRefund tells a refund's notice from a payment's: both come to the payment's address with one trade_status. The
// platform's own sample of a payment's notice has refund_fee=0.00, which says nothing. A paid trade that is closed has been
// refunded in full, also where the notice has no field of the refund.
func (t trade) tellsOfRefund() bool {
	if t.asked || t.status != statusSuccess && t.status != statusFinished && t.status != statusClosed {
		return false
	}
	return t.outBizNo != "" || t.refundedAt != "" || !isNothing(t.refundFee) || t.status == statusClosed && t.paidAt != ""
}

func isNothing(amount string) bool {
	minor, err := money.Parse(amount, currency)
	return amount == "" || err == nil && minor == 0
}

// hint says that something was refunded. Whether refund_fee is this refund or all refunds so far differs from source to
// source, so no amount is taken from it: Alipay is asked.
func (t trade) hint(e channel.Event) (channel.Event, error) {
	e.Kind, e.OutNo = channel.RefundHint, t.outBizNo
	if t.outBizNo != "" {
		e.Subject = identity(t.tradeNo, t.outBizNo)
	} else {
		e.Subject = identity(t.tradeNo, "#"+hash(fmt.Sprintf("%q %q %q", t.status, t.refundFee, t.refundedAt)))
	}
	var err error
	e.OccurredAt, err = parseTime(t.refundedAt)
	return e, err
}

func (t trade) amounts(e *channel.Event) error {
	unit := t.currency
	if unit == "" {
		unit = currency
	}
	for _, amount := range []struct {
		name, text string
		minor      *int64
	}{{"total_amount", t.total, &e.Amount}, {"buyer_pay_amount", t.payer, &e.PayerAmount}} {
		if amount.text == "" {
			continue
		}
		minor, err := money.Parse(amount.text, unit)
		if err != nil {
			return &channel.Unusable{Reason: "its " + amount.name + " is " + err.Error()}
		}
		*amount.minor = minor
	}
	if e.Amount > 0 {
		e.Currency = unit
	}
	return nil
}

// parseNotice reads a form.
func (a *account) parseNotice(body []byte) ([]channel.Event, error) {
	f, err := parseForm(body)
	if err != nil {
		return nil, &channel.Unusable{Reason: err.Error()}
	}
	if method := f["msg_method"]; method != "" {
		return unsupported("message " + quoted(method)), nil
	}
	if kind := f["notify_type"]; kind != "" && kind != "trade_status_sync" {
		return unsupported("notify_type " + quoted(kind)), nil
	}
	e, err := trade{
		tradeNo: f.characters("trade_no"), outTradeNo: f.characters("out_trade_no"), status: f["trade_status"],
		total: f["total_amount"], payer: f["buyer_pay_amount"], currency: f["trans_currency"],
		paidAt: f["gmt_payment"], closedAt: f["gmt_close"],
		outBizNo: f.characters("out_biz_no"), refundFee: f["refund_fee"], refundedAt: f["gmt_refund"],
		mismatch: a.mismatch(f),
	}.event()
	if err != nil {
		return nil, err
	}
	return []channel.Event{e}, nil
}

// mismatch says in what a notice contradicts the account. The seller is known by the user id; a notice that names the login alone
// cannot be held to it and is looked at by a person, and one that names no seller is held to the app, under whose key it came.
func (a *account) mismatch(f form) string {
	sellerID, sellerEmail := f.characters("seller_id"), f.characters("seller_email")
	switch {
	case f["app_id"] != a.appID:
		return "it is for another app: app_id " + quoted(f.characters("app_id"))
	case sellerID != "" && sellerID != a.sellerID:
		return "it is for another seller: seller_id " + quoted(sellerID)
	case sellerID == "" && sellerEmail != "":
		return "it may be for another seller, and has no seller_id: seller_email " + quoted(sellerEmail)
	}
	return ""
}

func unsupported(note string) []channel.Event {
	return []channel.Event{{Kind: channel.Unsupported, Note: note}}
}

// parseTime reads a time of Shanghai's clock, with or without fractions; none is the zero time.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.ParseInLocation(timeLayout, text, shanghai)
	if err != nil {
		return time.Time{}, &channel.Unusable{Reason: "one of its times is not one as Alipay writes it"}
	}
	return at.UTC(), nil
}

// identity joins Alipay's number of a trade, or ours of a sharing, with what is told apart within it: Alipay gives neither
// refunds nor legs of a sharing a number that every answer has. The length keeps "a:b" + "c" and "a" + "b:c" apart.
func identity(whole, part string) string {
	if whole == "" || part == "" {
		return ""
	}
	id := fmt.Sprintf("%s:%d:%s", whole, len(part), part)
	if utf8.RuneCountInString(id) > 128 {
		id = "#" + hash(id)
	}
	return id
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

func quoted(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.QuoteToASCII(s)
}
