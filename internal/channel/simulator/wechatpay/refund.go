package wechatpay

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"
)

var number = regexp.MustCompile(`^[0-9A-Za-z_\-|*@]{1,64}$`)

type refundCall struct {
	TransactionID string `json:"transaction_id"`
	OutTradeNo    string `json:"out_trade_no"`
	OutRefundNo   string `json:"out_refund_no"`
	Reason        string `json:"reason"`
	NotifyURL     string `json:"notify_url"`
	Amount        struct {
		Refund   int64  `json:"refund"`
		Total    int64  `json:"total"`
		Currency string `json:"currency"`
	} `json:"amount"`
}

type refund struct {
	refundCall
	id      string
	order   *order
	status  string // PROCESSING, SUCCESS, CLOSED, ABNORMAL
	created time.Time
	ended   time.Time
}

// refunded adds up an order's refunds of these states; none given means all that took or may take money.
func (s *Simulator) refunded(o *order, states ...string) int64 {
	if len(states) == 0 {
		states = []string{"PROCESSING", "SUCCESS", "ABNORMAL"}
	}
	var sum int64
	for _, r := range s.refunds {
		for _, state := range states {
			if r.order == o && r.status == state {
				sum += r.Amount.Refund
			}
		}
	}
	return sum
}

func (s *Simulator) refund(_ *http.Request, body []byte) answer {
	var in refundCall
	if problem := decode(body, &in); problem != nil {
		return *problem
	}
	o := s.paidOrder(in.TransactionID, in.OutTradeNo)
	switch {
	case !number.MatchString(in.OutRefundNo):
		return fail(http.StatusBadRequest, "PARAM_ERROR", "输入源“/body/out_refund_no”映射到字段“商户退款单号”字符串规则校验失败")
	case len(in.Reason) > 80:
		return fail(http.StatusBadRequest, "PARAM_ERROR", "输入源“/body/reason”映射到字段“退款原因”字符串规则校验失败")
	case in.Amount.Currency != "CNY" || in.Amount.Refund < 1:
		return fail(http.StatusBadRequest, "PARAM_ERROR", "输入源“/body/amount”规则校验失败")
	case o == nil:
		return fail(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "订单不存在")
	}
	if there, known := s.refunds[in.OutRefundNo]; known {
		if there.order != o || there.Amount != in.Amount {
			return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单金额或退款金额与之前请求不一致，请核实后再试")
		}
		return ok(s.refundFacts(there))
	}
	switch {
	case in.Amount.Total != o.Amount.Total:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单金额或退款金额与之前请求不一致，请核实后再试")
	case s.refunded(o) == o.Amount.Total:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单已全额退款")
	case s.refunded(o)+in.Amount.Refund > o.Amount.Total:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "退款金额大于可退金额")
	}
	r := &refund{refundCall: in, order: o, status: "PROCESSING", created: s.now()}
	r.id = s.number("5030000", r.created)
	s.refunds[in.OutRefundNo] = r
	o.frozen = max(0, o.frozen-in.Amount.Refund)
	accepted := ok(s.refundFacts(r))
	if !s.core.Faults().Hold {
		s.endRefund(r, "SUCCESS")
	}
	return accepted
}

func (s *Simulator) paidOrder(transactionID, outTradeNo string) *order {
	for _, o := range s.sequence {
		if !o.paidAt.IsZero() && (transactionID != "" && o.transactionID == transactionID || transactionID == "" && o.OutTradeNo == outTradeNo) {
			return o
		}
	}
	return nil
}

func (s *Simulator) queryRefund(r *http.Request, _ []byte) answer {
	there, known := s.refunds[r.PathValue("out_refund_no")]
	if !known {
		return fail(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "退款单不存在")
	}
	return ok(s.refundFacts(there))
}

// refundFacts is a refund as calls answer it.
func (s *Simulator) refundFacts(r *refund) map[string]any {
	facts := map[string]any{
		"refund_id": r.id, "out_refund_no": r.OutRefundNo, "transaction_id": r.order.transactionID, "out_trade_no": r.order.OutTradeNo,
		"channel": "ORIGINAL", "user_received_account": "支付用户零钱", "create_time": rfc3339(r.created), "status": r.status, "funds_account": "AVAILABLE",
		"amount": map[string]any{
			"total": r.order.Amount.Total, "refund": r.Amount.Refund, "payer_total": r.order.Amount.Total - r.order.coupon, "payer_refund": r.Amount.Refund,
			"settlement_refund": r.Amount.Refund, "settlement_total": r.order.Amount.Total - r.order.coupon, "discount_refund": 0, "currency": "CNY", "from": []any{},
		},
		"promotion_detail": []any{},
	}
	if r.status == "SUCCESS" {
		facts["success_time"] = rfc3339(r.ended)
	}
	return facts
}

// endRefund ends a refund and sends the notice, which names the merchant and no currency.
func (s *Simulator) endRefund(r *refund, status string) {
	r.status, r.ended = status, s.now()
	facts := map[string]any{
		"mchid": mchID, "out_trade_no": r.order.OutTradeNo, "transaction_id": r.order.transactionID, "out_refund_no": r.OutRefundNo,
		"refund_id": r.id, "refund_status": status, "user_received_account": "支付用户零钱",
		"amount": map[string]any{
			"total": r.order.Amount.Total, "refund": r.Amount.Refund, "payer_total": r.order.Amount.Total - r.order.coupon, "payer_refund": r.Amount.Refund,
		},
	}
	if status == "SUCCESS" {
		facts["success_time"] = rfc3339(r.ended)
	}
	s.notify(r.NotifyURL, "REFUND."+status, "refund", "退款", facts)
}

// SettleRefund implements [simulator.Simulator]. What is ABNORMAL can still be settled.
func (s *Simulator) SettleRefund(outRefundNo, state string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.refunds[outRefundNo]
	status, valid := map[string]string{"SUCCEEDED": "SUCCESS", "FAILED": "CLOSED", "ABNORMAL": "ABNORMAL"}[state]
	switch {
	case !known:
		return errors.New("there is no such refund")
	case !valid:
		return errors.New("a refund ends as SUCCEEDED, FAILED or ABNORMAL")
	case r.status != "PROCESSING" && r.status != "ABNORMAL":
		return fmt.Errorf("the refund is %s", r.status)
	}
	s.endRefund(r, status)
	return nil
}
