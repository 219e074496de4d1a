package wechatpay

import (
	"fmt"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// currency is the only one that these APIs take, and the one meant where an amount names none.
const currency = "CNY"

// transaction is a payment, in a notice and in the answer to a query alike.
type transaction struct {
	MchID         string `json:"mchid"`
	AppID         string `json:"appid"`
	SpMchID       string `json:"sp_mchid"`
	OutTradeNo    string `json:"out_trade_no"`
	TransactionID string `json:"transaction_id"`
	TradeState    string `json:"trade_state"`
	Attach        string `json:"attach"`
	SuccessTime   string `json:"success_time"`
	Amount        struct {
		Total      int64  `json:"total"` // fen
		PayerTotal int64  `json:"payer_total"`
		Currency   string `json:"currency"`
	} `json:"amount"`
}

// The states of a payment (trade_state).
const (
	tradeSuccess = "SUCCESS"
	tradeRefund  = "REFUND" // paid, and refunded in part or whole since
)

// events reads what was paid. A query sees a payment that was refunded since as REFUND; it is the same payment, and the same
// event. A notice is of the moment of success, so in one anything but SUCCESS is a contradiction.
func (t transaction) events(a *account, asked bool) ([]channel.Event, error) {
	paid := t.TradeState == tradeSuccess || (asked && t.TradeState == tradeRefund)
	if !paid && asked {
		return unsupported("trade_state " + quoted(t.TradeState)), nil
	}
	if !paid {
		return nil, &channel.Unusable{Reason: "it is a notice of success with the trade_state " + quoted(t.TradeState)}
	}
	at, err := parseTime("success_time", t.SuccessTime)
	if err != nil {
		return nil, err
	}
	e := channel.Event{
		Kind: channel.PaySuccess, Subject: t.TransactionID, TransactionID: t.TransactionID, OutTradeNo: t.OutTradeNo,
		Amount: t.Amount.Total, Currency: t.Amount.Currency, PayerAmount: t.Amount.PayerTotal, OccurredAt: at,
		Mismatch: a.mismatch(t.MchID, t.SpMchID),
	}
	if e.Currency == "" && e.Amount > 0 {
		e.Currency = currency
	}
	if e.Mismatch == "" && t.AppID != a.appID {
		e.Mismatch = fmt.Sprintf("it is for the app %s, the account's is %s", quoted(t.AppID), a.appID)
	}
	if t.Attach != "" {
		e.Note = "attach " + quoted(t.Attach)
	}
	return []channel.Event{e}, nil
}

// refund is a refund. Notices call its state refund_status, answers status; notices name the merchant and no currency,
// answers a currency and no merchant.
type refund struct {
	MchID         string `json:"mchid"`
	SpMchID       string `json:"sp_mchid"`
	RefundID      string `json:"refund_id"`
	OutRefundNo   string `json:"out_refund_no"`
	TransactionID string `json:"transaction_id"`
	OutTradeNo    string `json:"out_trade_no"`
	RefundStatus  string `json:"refund_status"`
	Status        string `json:"status"`
	SuccessTime   string `json:"success_time"` // of a success alone
	Amount        struct {
		Total    int64  `json:"total"`
		Refund   int64  `json:"refund"` // what was asked for, coupons included
		Currency string `json:"currency"`
	} `json:"amount"`
}

// The states of a refund.
const (
	refundSuccess    = "SUCCESS"
	refundClosed     = "CLOSED"
	refundProcessing = "PROCESSING"
	refundAbnormal   = "ABNORMAL"
)

func (r refund) status() string {
	switch {
	case r.RefundStatus == "" || r.RefundStatus == r.Status:
		return r.Status
	case r.Status == "":
		return r.RefundStatus
	default:
		return "" // two that contradict each other are none
	}
}

func (r refund) events(a *account) ([]channel.Event, error) {
	e := channel.Event{
		Subject: r.RefundID, TransactionID: r.TransactionID, OutTradeNo: r.OutTradeNo, OutNo: r.OutRefundNo,
		Amount: r.Amount.Refund, Currency: r.Amount.Currency,
	}
	switch r.status() {
	case refundSuccess:
		e.Kind = channel.RefundSuccess
	case refundClosed:
		e.Kind = channel.RefundFailed
	case refundAbnormal:
		e.Kind = channel.RefundAbnormal
	case refundProcessing:
		return unsupported("a refund that has not ended"), nil
	default:
		// An empty or unknown status is never a success.
		return nil, &channel.Unusable{Reason: "its refund status is " + quoted(r.status())}
	}
	var err error
	if e.OccurredAt, err = parseTime("success_time", r.SuccessTime); err != nil {
		return nil, err
	}
	if e.Currency == "" {
		e.Currency = currency
	}
	if r.MchID != "" || r.SpMchID != "" {
		e.Mismatch = a.mismatch(r.MchID, r.SpMchID)
	}
	return []channel.Event{e}, nil
}

// sharing is the answer to a query of a sharing, and to the calls that make one.
type sharing struct {
	TransactionID string     `json:"transaction_id"`
	OutOrderNo    string     `json:"out_order_no"`
	OrderID       string     `json:"order_id"`
	State         string     `json:"state"`
	Receivers     []receiver `json:"receivers"`
}

type receiver struct {
	Type       string `json:"type"`
	Account    string `json:"account"`
	Amount     int64  `json:"amount"`
	Result     string `json:"result"`
	FailReason string `json:"fail_reason"`
	DetailID   string `json:"detail_id"`
	FinishTime string `json:"finish_time"`
}

// The results of a leg.
const (
	legPending = "PENDING"
	legSuccess = "SUCCESS"
	legClosed  = "CLOSED"
)

// own tells whether a leg is what the merchant keeps: WeChat Pay lists what it releases as a receiver too.
func (r receiver) own(a *account) bool { return r.Type == merchantReceiver && r.Account == a.mchID }

// events gives one event for each receiver whose leg has ended.
func (s sharing) events(a *account) []channel.Event {
	var events []channel.Event
	for _, r := range s.Receivers {
		var state channel.LegState
		switch r.Result {
		case legSuccess:
			state = channel.LegSucceeded
		case legClosed:
			state = channel.LegClosed
		}
		if state == "" || r.own(a) {
			continue
		}
		e := s.event(r)
		e.LegState = state
		if r.FailReason != "" {
			e.Note = "fail_reason " + quoted(r.FailReason)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return unsupported("a sharing of which no receiver's leg has ended")
	}
	return events
}

// event says what all events of a leg have in common. WeChat Pay's number of the leg is in answers alone; a notice's leg is
// named by its account.
func (s sharing) event(r receiver) channel.Event {
	leg := r.DetailID
	if leg == "" {
		leg = r.Account
	}
	at, err := parseTime("finish_time", r.FinishTime)
	if err != nil {
		at = time.Time{} // a leg's time books nothing; without it the leg has ended all the same
	}
	e := channel.Event{
		Kind: channel.ShareResult, Subject: s.OrderID + ":" + leg, TransactionID: s.TransactionID, OutNo: s.OutOrderNo,
		Receiver: r.Account, Amount: r.Amount, OccurredAt: at,
	}
	if e.Amount != 0 {
		e.Currency = currency
	}
	if s.OrderID == "" || leg == "" {
		e.Subject = "" // refused by channel.Read
	}
	return e
}

// shareNotice tells a receiver of its leg. The merchant that shares gets none: it asks.
type shareNotice struct {
	MchID   string `json:"mchid"`
	SpMchID string `json:"sp_mchid"`
	sharing
	Receiver    receiver `json:"receiver"`
	SuccessTime string   `json:"success_time"`
}

func (s shareNotice) events(a *account) []channel.Event {
	s.Receiver.FinishTime = s.SuccessTime
	e := s.event(s.Receiver)
	e.LegState = channel.LegSucceeded
	e.Mismatch = a.mismatch(s.MchID, s.SpMchID)
	return []channel.Event{e}
}

// mismatch says in what a message's merchant is not the account's.
func (a *account) mismatch(mchID, spMchID string) string {
	switch {
	case spMchID != "":
		return fmt.Sprintf("it is of the service provider %s, the account is a merchant's own", quoted(spMchID))
	case mchID != a.mchID:
		return fmt.Sprintf("it is for the merchant %s, the account's is %s", quoted(mchID), a.mchID)
	}
	return ""
}

// parseTime reads RFC 3339. WeChat Pay writes nothing, or a time around 1970, where there is none.
func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &channel.Unusable{Reason: "its " + field + " is not a time"}
	}
	if at.Year() < 1980 {
		return time.Time{}, nil
	}
	return at.UTC(), nil
}
