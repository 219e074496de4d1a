package wechatpay

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

type shareCall struct {
	AppID           string        `json:"appid"`
	TransactionID   string        `json:"transaction_id"`
	OutOrderNo      string        `json:"out_order_no"`
	Receivers       []shareTarget `json:"receivers"`
	UnfreezeUnsplit bool          `json:"unfreeze_unsplit"`
	Description     string        `json:"description"`
}

type shareTarget struct {
	Type        string `json:"type"`
	Account     string `json:"account"`
	Name        string `json:"name"`
	Amount      int64  `json:"amount"`
	Description string `json:"description"`
}

type share struct {
	shareCall
	id    string
	order *order
	legs  []*leg
}

type leg struct {
	shareTarget
	detailID string
	result   string // PENDING, SUCCESS, CLOSED
	reason   string
	name     string // decrypted
	created  time.Time
	finished time.Time
	returned int64
}

func (s *Simulator) share(r *http.Request, body []byte) answer {
	var in shareCall
	if problem := decode(body, &in); problem != nil {
		return *problem
	}
	o := s.paidOrder(in.TransactionID, "")
	switch {
	case in.TransactionID == "" || o == nil:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单不存在")
	case in.AppID != appID:
		return fail(http.StatusBadRequest, "APPID_MCHID_NOT_MATCH", "appid和mch_id不匹配")
	case !number.MatchString(in.OutOrderNo) || len(in.Receivers) == 0 || len(in.Receivers) > 50:
		return fail(http.StatusBadRequest, "PARAM_ERROR", "参数错误")
	}
	var sum int64
	names := make([]string, len(in.Receivers))
	for i, t := range in.Receivers {
		if t.Type != "MERCHANT_ID" && t.Type != "PERSONAL_OPENID" || t.Account == "" || t.Amount < 1 || t.Description == "" || len(t.Description) > 80 {
			return fail(http.StatusBadRequest, "PARAM_ERROR", "分账接收方参数错误")
		}
		if t.Name != "" {
			if r.Header.Get("Wechatpay-Serial") == "" {
				return fail(http.StatusBadRequest, "PARAM_ERROR", "缺少Http头Wechatpay-Serial")
			}
			var err error
			if names[i], err = s.keys.open(r.Header.Get("Wechatpay-Serial"), t.Name); err != nil {
				return fail(http.StatusBadRequest, "PARAM_ERROR", "敏感信息解密失败")
			}
		}
		sum += t.Amount
	}
	if there, known := s.shares[in.OutOrderNo]; known {
		if !sameShare(there.shareCall, in) {
			return fail(http.StatusBadRequest, "INVALID_REQUEST", "分账单号已存在，且参数与之前请求不一致")
		}
		return ok(there.facts())
	}
	switch {
	case o.SettleInfo == nil || !o.SettleInfo.ProfitSharing:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "非分账订单不支持分账")
	case o.released:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单已完结分账")
	case sum > o.frozen:
		return fail(http.StatusForbidden, "NOT_ENOUGH", "分账金额不足")
	}
	sh := &share{shareCall: in, order: o, id: s.number("30000", s.now())}
	o.frozen -= sum
	for i, t := range in.Receivers {
		sh.legs = append(sh.legs, &leg{shareTarget: t, name: names[i], result: "PENDING", detailID: s.number("36000", s.now()), created: s.now()})
	}
	if in.UnfreezeUnsplit {
		s.release(sh)
	}
	return s.begin(sh)
}

// release lists what the merchant keeps as a leg of its own, as WeChat Pay does.
func (s *Simulator) release(sh *share) {
	sh.order.released = true
	if sh.order.frozen > 0 {
		t := shareTarget{Type: "MERCHANT_ID", Account: mchID, Amount: sh.order.frozen, Description: "解冻给分账方"}
		sh.legs = append(sh.legs, &leg{shareTarget: t, result: "PENDING", detailID: s.number("36000", s.now()), created: s.now()})
		sh.order.frozen = 0
	}
}

// begin accepts a sharing; it is carried out after the answer.
func (s *Simulator) begin(sh *share) answer {
	s.shares[sh.OutOrderNo] = sh
	accepted := ok(sh.facts())
	if !s.core.Faults().Hold {
		s.settle(sh)
	}
	return accepted
}

func sameShare(a, b shareCall) bool {
	return a.TransactionID == b.TransactionID && a.UnfreezeUnsplit == b.UnfreezeUnsplit &&
		slices.EqualFunc(a.Receivers, b.Receivers, func(x, y shareTarget) bool {
			return x.Type == y.Type && x.Account == y.Account && x.Amount == y.Amount // a name is encrypted anew each time
		})
}

func (s *Simulator) unfreeze(_ *http.Request, body []byte) answer {
	var in shareCall
	if problem := decode(body, &in); problem != nil {
		return *problem
	}
	o := s.paidOrder(in.TransactionID, "")
	switch {
	case in.TransactionID == "" || o == nil:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单不存在")
	case !number.MatchString(in.OutOrderNo) || in.Description == "":
		return fail(http.StatusBadRequest, "PARAM_ERROR", "参数错误")
	}
	if there, known := s.shares[in.OutOrderNo]; known {
		if there.order != o || len(there.Receivers) > 0 {
			return fail(http.StatusBadRequest, "INVALID_REQUEST", "分账单号已存在，且参数与之前请求不一致")
		}
		return ok(there.facts())
	}
	switch {
	case o.SettleInfo == nil || !o.SettleInfo.ProfitSharing:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "非分账订单不支持解冻")
	case o.released:
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "订单已完结分账")
	}
	sh := &share{shareCall: in, order: o, id: s.number("30000", s.now())}
	s.release(sh)
	return s.begin(sh)
}

func (s *Simulator) queryShare(r *http.Request, _ []byte) answer {
	sh, known := s.shares[r.PathValue("out_order_no")]
	if !known || sh.order.transactionID != r.URL.Query().Get("transaction_id") {
		return fail(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "记录不存在")
	}
	return ok(sh.facts())
}

// facts is a sharing as calls answer it. WeChat Pay writes the beginning of time where a leg has not ended.
func (sh *share) facts() map[string]any {
	state := "FINISHED"
	var receivers []any
	for _, l := range sh.legs {
		finish := time.Unix(0, 0)
		if l.result == "PENDING" {
			state = "PROCESSING"
		} else {
			finish = l.finished
		}
		r := map[string]any{
			"type": l.Type, "account": l.Account, "amount": l.Amount, "description": l.Description, "result": l.result,
			"detail_id": l.detailID, "create_time": rfc3339(l.created), "finish_time": rfc3339(finish),
		}
		if l.reason != "" {
			r["fail_reason"] = l.reason
		}
		receivers = append(receivers, r)
	}
	return map[string]any{
		"transaction_id": sh.order.transactionID, "out_order_no": sh.OutOrderNo, "order_id": sh.id, "state": state, "receivers": receivers,
	}
}

// settle ends the legs that are pending; what a closed one would have got is the merchant's.
func (s *Simulator) settle(sh *share, closed ...string) {
	for _, l := range sh.legs {
		if l.result != "PENDING" {
			continue
		}
		l.result, l.finished = "SUCCESS", s.now()
		if slices.Contains(closed, l.Account) {
			l.result, l.reason = "CLOSED", "ACCOUNT_ABNORMAL"
			if !sh.order.released {
				sh.order.frozen += l.Amount
			}
		}
	}
}

// SettleShare implements [simulator.Simulator].
func (s *Simulator) SettleShare(outOrderNo string, closed ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, known := s.shares[outOrderNo]
	if !known {
		return errors.New("there is no such sharing")
	}
	if !slices.ContainsFunc(sh.legs, func(l *leg) bool { return l.result == "PENDING" }) {
		return errors.New("the sharing has ended")
	}
	for _, account := range closed {
		if !slices.ContainsFunc(sh.legs, func(l *leg) bool { return l.Account == account }) {
			return fmt.Errorf("there is no receiver %q in it", account)
		}
	}
	s.settle(sh, closed...)
	return nil
}

// ReceiverName gives a receiver's name as it was decrypted, for tests.
func (s *Simulator) ReceiverName(outOrderNo, account string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh, known := s.shares[outOrderNo]; known {
		for _, l := range sh.legs {
			if l.Account == account {
				return l.name
			}
		}
	}
	return ""
}
