package alipay

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// scalar is a JSON text or number as its characters: Alipay writes amounts as either, and neither becomes a float here.
type scalar string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *scalar) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(s))
	}
	if bytes.IndexByte([]byte("-0123456789"), data[0]) >= 0 {
		*s = scalar(data)
		return nil
	}
	if string(data) == "null" {
		return nil
	}
	return errors.New("neither a text nor a number")
}

// yuan reads an amount to the unit.
func (s scalar) yuan() (int64, error) { return money.Parse(string(s), currency) }

// result is what every answer begins with.
type result struct {
	Code    scalar `json:"code"`
	Msg     string `json:"msg"`
	SubCode string `json:"sub_code"`
	SubMsg  string `json:"sub_msg"`
}

const codeSuccess = "10000"

// Methods of the gateway whose answers are facts.
const (
	methodQuery       = "alipay.trade.query"
	methodQueryRefund = "alipay.trade.fastpay.refund.query"
	methodQueryShare  = "alipay.trade.order.settle.query"
)

// member is the name under which an answer to a method stands in the reply.
func member(method string) string { return strings.ReplaceAll(method, ".", "_") + "_response" }

type tradeAnswer struct {
	result
	TradeNo        string `json:"trade_no"`
	OutTradeNo     string `json:"out_trade_no"`
	TradeStatus    string `json:"trade_status"`
	TotalAmount    scalar `json:"total_amount"`
	BuyerPayAmount scalar `json:"buyer_pay_amount"`
	TransCurrency  string `json:"trans_currency"`
	SendPayDate    string `json:"send_pay_date"`
}

func (t tradeAnswer) event() (channel.Event, error) {
	return trade{
		tradeNo: t.TradeNo, outTradeNo: t.OutTradeNo, status: t.TradeStatus,
		total: string(t.TotalAmount), payer: string(t.BuyerPayAmount), currency: t.TransCurrency,
		paidAt: t.SendPayDate, asked: true,
	}.event()
}

type refundAnswer struct {
	result
	TradeNo       string          `json:"trade_no"`
	OutTradeNo    string          `json:"out_trade_no"`
	OutRequestNo  string          `json:"out_request_no"`
	RefundAmount  scalar          `json:"refund_amount"`
	RefundStatus  string          `json:"refund_status"`
	GmtRefundPay  string          `json:"gmt_refund_pay"`
	Charges       []refundCharge  `json:"refund_charge_info_list"`
	RefundRoyalty []refundRoyalty `json:"refund_royaltys"`
	ErrorCode     string          `json:"error_code"`
}

type refundCharge struct {
	Fee scalar `json:"refund_charge_fee"`
}

type refundRoyalty struct {
	TransOut      string `json:"trans_out"`
	TransOutEmail string `json:"trans_out_email"`
	OriTransOut   string `json:"ori_trans_out"`
	RefundAmount  scalar `json:"refund_amount"`
	ResultCode    string `json:"result_code"`
}

const refundSuccess = "REFUND_SUCCESS"

func (r refundAnswer) event() (channel.Event, error) {
	if r.RefundStatus != refundSuccess {
		return channel.Event{}, &channel.Unusable{Reason: "its refund_status " + quoted(r.RefundStatus) + " is no end"}
	}
	e := channel.Event{
		Kind: channel.RefundSuccess, Subject: identity(r.TradeNo, r.OutRequestNo),
		TransactionID: r.TradeNo, OutTradeNo: r.OutTradeNo, OutNo: r.OutRequestNo, Currency: currency,
	}
	var err error
	if e.Amount, err = r.RefundAmount.yuan(); err != nil {
		return e, &channel.Unusable{Reason: "its refund_amount is " + err.Error()}
	}
	if e.OccurredAt, err = parseTime(r.GmtRefundPay); err != nil {
		return e, err
	}
	e.Fee, err = r.fee()
	return e, err
}

// fee is the part of Alipay's fee that came back; nil where the answer does not tell.
func (r refundAnswer) fee() (*int64, error) {
	if len(r.Charges) == 0 {
		return nil, nil
	}
	var sum int64
	for _, charge := range r.Charges {
		fee, err := charge.Fee.yuan()
		if err != nil || sum+fee < sum {
			return nil, &channel.Unusable{Reason: "one of its refund_charge_fee is not an amount"}
		}
		sum += fee
	}
	return &sum, nil
}

type shareAnswer struct {
	result
	OutRequestNo string        `json:"out_request_no"`
	OperationDt  string        `json:"operation_dt"`
	Details      []shareDetail `json:"royalty_detail_list"`
}

type shareDetail struct {
	OperationType string `json:"operation_type"`
	ExecuteDt     string `json:"execute_dt"`
	TransIn       string `json:"trans_in"`
	TransInOpenID string `json:"trans_in_open_id"`
	Amount        scalar `json:"amount"`
	State         string `json:"state"`
	ErrorCode     string `json:"error_code"`
	ErrorDesc     string `json:"error_desc"`
}

// leg tells whether a detail is one of the sharing; the others are of the merchant's own top-ups, and returns.
func (d shareDetail) leg() bool { return d.OperationType == "" || d.OperationType == "transfer" }

func (d shareDetail) receiver() string {
	if d.TransIn == "" {
		return d.TransInOpenID
	}
	return d.TransIn
}

// state takes what is not known for no end.
func (d shareDetail) state() channel.LegState {
	switch d.State {
	case "SUCCESS":
		return channel.LegSucceeded
	case "FAIL":
		return channel.LegClosed
	}
	return channel.LegPending
}

// events gives one event per leg that has ended.
func (s shareAnswer) events() ([]channel.Event, error) {
	var events []channel.Event
	for _, d := range s.Details {
		if !d.leg() || d.state() == channel.LegPending {
			continue
		}
		amount, err := d.Amount.yuan()
		if err != nil {
			return nil, &channel.Unusable{Reason: "the amount of a leg is " + err.Error()}
		}
		at, err := parseTime(d.ExecuteDt)
		if err != nil {
			return nil, err
		}
		events = append(events, channel.Event{
			Kind: channel.ShareResult, Subject: identity(s.OutRequestNo, d.receiver()), OutNo: s.OutRequestNo,
			Receiver: d.receiver(), LegState: d.state(), Amount: amount, Currency: currency, OccurredAt: at,
			Note: d.reason(),
		})
	}
	if len(events) == 0 {
		return nil, &channel.Unusable{Reason: "no leg of the sharing has ended"}
	}
	return events, nil
}

// reason is Alipay's word on a leg that got nothing.
func (d shareDetail) reason() string {
	return strings.TrimSpace(shortened(d.ErrorCode) + " " + shortened(d.ErrorDesc))
}

// parseAnswer reads the whole reply to a question, as it came and as it is stored.
func parseAnswer(body []byte) ([]channel.Event, error) {
	var reply map[string]json.RawMessage
	if err := strictjson.Unmarshal(body, &reply); err != nil {
		return nil, unusable(err)
	}
	var one channel.Event
	var err error
	switch {
	case reply[member(methodQuery)] != nil:
		var answer tradeAnswer
		if err = read(reply[member(methodQuery)], &answer, &answer.result); err == nil {
			one, err = answer.event()
		}
	case reply[member(methodQueryRefund)] != nil:
		var answer refundAnswer
		if err = read(reply[member(methodQueryRefund)], &answer, &answer.result); err == nil {
			one, err = answer.event()
		}
	case reply[member(methodQueryShare)] != nil:
		var answer shareAnswer
		if err = read(reply[member(methodQueryShare)], &answer, &answer.result); err == nil {
			return answer.events()
		}
	default:
		err = &channel.Unusable{Reason: "it is no answer that is a fact"}
	}
	if err != nil {
		return nil, err
	}
	return []channel.Event{one}, nil
}

func read(raw json.RawMessage, answer any, r *result) error {
	if err := json.Unmarshal(raw, answer); err != nil {
		return unusable(err)
	}
	if r.Code != codeSuccess {
		return &channel.Unusable{Reason: "it reports a failure, not a fact"}
	}
	return nil
}

func unusable(err error) error {
	if errors.Is(err, strictjson.ErrMalformed) {
		return &channel.Unusable{Reason: err.Error()}
	}
	return &channel.Unusable{Reason: "its fields cannot be read"}
}
