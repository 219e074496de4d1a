package alipay

import "encoding/json"

func (s *Simulator) settle(r request) fields {
	o := s.find(r.text("trade_no"), "")
	number := r.text("out_request_no")
	switch {
	case o == nil:
		return noTrade
	case number == "":
		return badParam
	}
	legs, refused := s.legs(r)
	if refused != nil {
		return refused
	}
	extended := request{content: asMap(r.content["extend_params"])}
	finish := extended.text("royalty_finish") == "true"
	content, err := json.Marshal(r.content)
	if err != nil || len(legs) == 0 && !finish {
		return badParam
	}
	for _, known := range o.shares {
		if known.number == number {
			if known.content != string(content) {
				return no("DISCORDANT_REPEAT_REQUEST", "请求被篡改")
			}
			return yes(fields{"trade_no": o.tradeNo, "settle_no": known.settleNo})
		}
	}
	mode := r.text("royalty_mode")
	if mode == "" {
		mode = "sync"
	}
	switch {
	case o.status != statusSuccess:
		return no("TRADE_STATUS_ERROR", "交易状态不合法")
	case o.shareFinished:
		return no("ALREADY_FINISH_ALLOC", "分账已完结")
	case o.shareMode != "" && o.shareMode != mode:
		return no("ILLEGAL_REQUEST", "同步分账和异步分账不能混用")
	case mode == "sync" && len(legs) > 5:
		return badParam
	case o.shared()+sum(legs) > s.mostShared(o):
		return no("ALLOC_AMOUNT_VALIDATE_ERROR", "分账金额超过最大可分账金额")
	}
	made := &share{number: number, settleNo: s.number(), content: string(content), legs: legs, at: s.now()}
	for _, l := range legs {
		l.state = "PROCESSING"
		if !s.core.Faults().Hold {
			l.state, l.at = "SUCCESS", s.now()
		}
	}
	o.shares, o.shareMode, o.shareFinished = append(o.shares, made), mode, finish
	return yes(fields{"trade_no": o.tradeNo, "settle_no": made.settleNo})
}

func (s *Simulator) legs(r request) (legs []*leg, refused fields) {
	params, _ := r.content["royalty_parameters"].([]any)
	for _, p := range params {
		item := request{content: asMap(p)}
		amount, ok := minor(item.text("amount"))
		account := item.text("trans_in")
		switch {
		case !ok || amount == 0 || account == "":
			return nil, badParam
		case account == sellerID:
			return nil, no("ROYALTY_ACCOUNTS_EQUAL", "分账收支账户不能相同")
		case !s.bound[account]:
			return nil, no("ROYALTY_RECEIVER_INVALID", "收入方不在分账关系内")
		}
		legs = append(legs, &leg{account: account, amount: amount})
	}
	return legs, nil
}

func sum(legs []*leg) (total int64) {
	for _, l := range legs {
		total += l.amount
	}
	return total
}

func (o *order) shared() (total int64) {
	for _, sh := range o.shares {
		for _, l := range sh.legs {
			if l.state != "FAIL" {
				total += l.amount
			}
		}
	}
	return total
}

// mostShared bounds the shares of a payment: by the merchant's contract, and by what the payer did not get back.
func (s *Simulator) mostShared(o *order) int64 {
	left := o.amount - o.refunded(true)
	if s.quirks.MostShared == 0 {
		return left
	}
	return min(left, o.amount*s.quirks.MostShared/100)
}

func (s *Simulator) querySettle(r request) fields {
	for _, o := range s.orders {
		for _, sh := range o.shares {
			if r.text("settle_no") != sh.settleNo && (o.tradeNo != r.text("trade_no") || sh.number != r.text("out_request_no")) {
				continue
			}
			details := []fields{}
			for _, l := range sh.legs {
				d := fields{"operation_type": "transfer", "trans_in": l.account, "trans_in_type": "userId", "amount": yuan(l.amount), "state": l.state}
				if !l.at.IsZero() {
					d["execute_dt"] = l.at.In(shanghai).Format(timeLayout)
				}
				if l.state == "FAIL" {
					d["error_code"], d["error_desc"] = "TXN_RESULT_ACCOUNT_BALANCE_NOT_ENOUGH", "分账余额不足"
				}
				details = append(details, d)
			}
			return yes(fields{"out_request_no": sh.number, "operation_dt": sh.at.In(shanghai).Format(timeLayout), "royalty_detail_list": details})
		}
	}
	return fail("40004", "INVALID_PARAMETER", "参数无效") // its table has no other word for a sharing that is not there
}

// bind allows shares to receivers.
func (s *Simulator) bind(r request) fields {
	list, _ := r.content["receiver_list"].([]any)
	if len(list) == 0 {
		return no("RECEIVER_LIST_EMPTY", "分账收款方列表为空")
	}
	for _, p := range list {
		item := request{content: asMap(p)}
		if item.text("type") != "userId" || item.text("account") == "" {
			return no("INVALID_RECEIVER_TYPE", "分账收款方类型参数非法")
		}
		s.bound[item.text("account")] = true
	}
	return yes(fields{"result_code": "SUCCESS"})
}
