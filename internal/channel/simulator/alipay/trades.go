package alipay

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// yuan writes minor units; minor reads them, and refuses what is no amount of Alipay's.
func yuan(minor int64) string { return fmt.Sprintf("%d.%02d", minor/100, minor%100) }

var amountForm = regexp.MustCompile(`^(\d{1,9})(?:\.(\d{1,2}))?$`)

func minor(text string) (int64, bool) {
	parts := amountForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	amount, err := strconv.ParseInt(parts[1]+(parts[2] + "00")[:2], 10, 64)
	return amount, err == nil
}

var (
	numberForm = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
	noTrade    = no("TRADE_NOT_EXIST", "交易不存在")
	badParam   = no("INVALID_PARAMETER", "参数无效")
)

// announce makes an order, or finds it again.
func (s *Simulator) announce(r request) (*order, fields) {
	amount, ok := minor(r.text("total_amount"))
	subject := r.text("subject")
	if !ok || amount < 1 || !numberForm.MatchString(r.text("out_trade_no")) || subject == "" || strings.ContainsAny(subject, "/=&") {
		return nil, badParam
	}
	if seller := r.text("seller_id"); seller != "" && seller != sellerID {
		return nil, no("INVALID_RECEIVE_ACCOUNT", "收款账户不支持")
	}
	o := s.find("", r.text("out_trade_no"))
	switch {
	case o == nil:
		o = &order{outTradeNo: r.text("out_trade_no"), subject: subject, amount: amount, createdAt: s.now()}
		s.orders = append(s.orders, o)
	case o.amount != amount:
		return nil, no("CONTEXT_INCONSISTENT", "交易信息被篡改")
	case o.status == statusClosed:
		return nil, no("TRADE_HAS_CLOSE", "交易已关闭")
	case o.status != statusCode && o.status != statusWaiting:
		return nil, no("TRADE_HAS_SUCCESS", "交易已被支付")
	}
	o.notifyURL = r.params.Get("notify_url")
	return o, nil
}

func (s *Simulator) precreate(r request) fields {
	o, refused := s.announce(r)
	if refused != nil {
		return refused
	}
	return yes(fields{"out_trade_no": o.outTradeNo, "qr_code": "https://qr.alipay.com/sim" + o.outTradeNo})
}

// trade finds what is a trade already.
func (s *Simulator) trade(r request) *order {
	o := s.find(r.text("trade_no"), r.text("out_trade_no"))
	if o == nil || o.status == statusCode {
		return nil
	}
	return o
}

func (s *Simulator) query(r request) fields {
	o := s.trade(r)
	if o == nil {
		return noTrade
	}
	f := fields{
		"trade_no": o.tradeNo, "out_trade_no": o.outTradeNo, "trade_status": o.status, "total_amount": yuan(o.amount),
		"buyer_logon_id": "159****5620", "buyer_pay_amount": "0.00", "point_amount": "0.00", "invoice_amount": "0.00", "receipt_amount": "0.00",
		"subject": o.subject,
	}
	if !o.paidAt.IsZero() {
		f["send_pay_date"], f["buyer_pay_amount"], f["receipt_amount"] = o.paidAt.In(shanghai).Format(timeLayout), yuan(o.payer), yuan(o.amount)
	}
	return yes(f)
}

func (s *Simulator) closeTrade(r request) fields {
	o := s.trade(r)
	switch {
	case o == nil:
		return noTrade
	case o.status == statusClosed:
		return no("REASON_TRADE_STATUS_INVALID", "交易状态异常")
	case o.status != statusWaiting:
		return no("TRADE_STATUS_ERROR", "交易状态不合法")
	}
	s.close(o)
	return yes(fields{"trade_no": o.tradeNo, "out_trade_no": o.outTradeNo})
}

func (s *Simulator) refundTrade(r request) fields {
	o := s.trade(r)
	amount, ok := minor(r.text("refund_amount"))
	number := r.text("out_request_no")
	returns, legible := takenBacks(r)
	switch {
	case o == nil:
		return noTrade
	case !ok || !legible || number == "" || amount == 0 && len(returns) == 0:
		return badParam
	}
	if known := o.refund(number); known != nil {
		if known.amount != amount {
			return no("DISCORDANT_REPEAT_REQUEST", "请求信息不一致")
		}
		return s.refundAnswer(o, "N")
	}
	switch {
	case o.status == statusFinished:
		return no("TRADE_HAS_FINISHED", "交易已完结")
	case o.status == statusClosed:
		return no("TRADE_HAS_CLOSE", "交易已关闭")
	case o.status != statusSuccess:
		return no("TRADE_STATUS_ERROR", "交易状态非法")
	case o.refunded(true)+amount > o.amount:
		return no("REASON_TRADE_REFUND_FEE_ERR", "退款金额无效")
	}
	for _, back := range returns {
		if o.left(back.account) < back.amount {
			return no("ALLOC_AMOUNT_VALIDATE_ERROR", "退分账金额超限")
		}
	}
	made := &refund{number: number, amount: amount, reason: r.text("refund_reason"), returns: returns}
	o.refunds = append(o.refunds, made)
	if s.core.Faults().Hold {
		return s.refundAnswer(o, "N")
	}
	s.carryOut(o, made)
	return s.refundAnswer(o, "Y")
}

// refundAnswer names no refund: refund_fee is the sum of all.
func (s *Simulator) refundAnswer(o *order, change string) fields {
	return yes(fields{
		"trade_no": o.tradeNo, "out_trade_no": o.outTradeNo, "buyer_logon_id": "159****5620",
		"fund_change": change, "refund_fee": yuan(o.refunded(false)), "send_back_fee": yuan(o.refunded(false)),
	})
}

func takenBacks(r request) (list []takenBack, ok bool) {
	params, _ := r.content["refund_royalty_parameters"].([]any)
	for _, p := range params {
		item := request{content: asMap(p)}
		amount, ok := minor(item.text("amount"))
		if !ok || amount == 0 || item.text("trans_out") == "" || item.text("trans_in") != sellerID {
			return nil, false
		}
		list = append(list, takenBack{item.text("trans_out"), amount})
	}
	return list, true
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// left is what a receiver has of a payment.
func (o *order) left(account string) (sum int64) {
	for _, sh := range o.shares {
		for _, l := range sh.legs {
			if l.account == account && l.state == "SUCCESS" {
				sum += l.amount
			}
		}
	}
	for _, r := range o.refunds {
		for _, back := range r.returns {
			if back.account == account {
				sum -= back.amount
			}
		}
	}
	return sum
}

// isReturn tells whether a number is of a return.
func (s *Simulator) isReturn(number string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if r := o.refund(number); r != nil && len(r.returns) > 0 {
			return true
		}
	}
	return false
}

// queryRefund says nothing of a refund that is not done, nor of one that it does not know.
func (s *Simulator) queryRefund(r request) fields {
	o := s.trade(r)
	if o == nil {
		return noTrade
	}
	made := o.refund(r.text("out_request_no"))
	if made == nil || !made.done {
		return yes(fields{})
	}
	f := fields{
		"trade_no": o.tradeNo, "out_trade_no": o.outTradeNo, "out_request_no": made.number,
		"total_amount": yuan(o.amount), "refund_amount": yuan(made.amount), "refund_status": "REFUND_SUCCESS", "send_back_fee": yuan(made.amount),
	}
	if options, _ := r.content["query_options"].([]any); len(options) == 1 && options[0] == "gmt_refund_pay" {
		f["gmt_refund_pay"] = made.at.In(shanghai).Format(timeLayout)
	}
	if fee := feeOf(made.amount); fee > 0 {
		f["refund_charge_info_list"] = []fields{{"refund_charge_fee": yuan(fee), "switch_fee_rate": "0.006", "charge_type": "trade"}}
	}
	var royalties []fields
	for _, back := range made.returns {
		royalties = append(royalties, fields{
			"trans_out": back.account, "trans_in": sellerID, "refund_amount": yuan(back.amount), "royalty_type": "transfer", "result_code": "SUCCESS",
		})
	}
	if royalties != nil {
		f["refund_royaltys"] = royalties
	}
	return yes(f)
}

// feeOf is six in a thousand, rounded.
func feeOf(amount int64) int64 { return (amount*6 + 500) / 1000 }
