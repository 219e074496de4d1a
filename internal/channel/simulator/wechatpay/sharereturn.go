package wechatpay

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

type returnCall struct {
	OrderID     string `json:"order_id"`
	OutOrderNo  string `json:"out_order_no"`
	OutReturnNo string `json:"out_return_no"`
	ReturnMchID string `json:"return_mchid"`
	Amount      int64  `json:"amount"`
	Description string `json:"description"`
}

type shareReturn struct {
	returnCall
	id      string
	share   *share
	result  string
	created time.Time
}

func (s *Simulator) returnShare(_ *http.Request, body []byte) answer {
	var in returnCall
	if problem := decode(body, &in); problem != nil {
		return *problem
	}
	if !number.MatchString(in.OutReturnNo) || in.Amount < 1 || in.Description == "" || len(in.Description) > 80 {
		return fail(http.StatusBadRequest, "PARAM_ERROR", "参数错误")
	}
	if there, known := s.returns[in.OutReturnNo]; known {
		if there.OutOrderNo != in.OutOrderNo || there.ReturnMchID != in.ReturnMchID || there.Amount != in.Amount {
			return fail(http.StatusBadRequest, "INVALID_REQUEST", "回退单号已存在，且参数与之前请求不一致")
		}
		return ok(there.facts())
	}
	sh, known := s.shares[in.OutOrderNo]
	if !known {
		return fail(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "记录不存在")
	}
	i := slices.IndexFunc(sh.legs, func(l *leg) bool {
		return l.Type == "MERCHANT_ID" && l.Account == in.ReturnMchID && l.result == "SUCCESS"
	})
	if i < 0 {
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "回退商户不是原分账接收方")
	}
	l := sh.legs[i]
	if l.returned+in.Amount > l.Amount {
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "剩余可回退的金额不足")
	}
	back := &shareReturn{returnCall: in, share: sh, id: s.number("31000", s.now()), result: "SUCCESS", created: s.now()}
	if s.core.Faults().Hold {
		back.result = "PROCESSING"
	}
	l.returned += in.Amount
	s.returns[in.OutReturnNo] = back
	return ok(back.facts())
}

func (s *Simulator) queryReturn(r *http.Request, _ []byte) answer {
	back, known := s.returns[r.PathValue("out_return_no")]
	if !known || back.OutOrderNo != r.URL.Query().Get("out_order_no") {
		return fail(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "记录不存在")
	}
	return ok(back.facts())
}

func (r *shareReturn) facts() map[string]any {
	facts := map[string]any{
		"order_id": r.share.id, "out_order_no": r.OutOrderNo, "out_return_no": r.OutReturnNo, "return_id": r.id, "return_mchid": r.ReturnMchID,
		"amount": r.Amount, "description": r.Description, "result": r.result, "create_time": rfc3339(r.created), "finish_time": rfc3339(r.created),
	}
	if r.result == "FAILED" {
		facts["fail_reason"] = "BALANCE_NOT_ENOUGH"
	}
	return facts
}

// SettleReturn ends a return that is pending: the receiver has the money, or has not.
func (s *Simulator) SettleReturn(outReturnNo string, succeeds bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	back, known := s.returns[outReturnNo]
	if !known || back.result != "PROCESSING" {
		return errors.New("there is no such return that is pending")
	}
	back.result = "SUCCESS"
	if !succeeds {
		back.result = "FAILED"
		for _, l := range back.share.legs {
			if l.Account == back.ReturnMchID {
				l.returned -= back.Amount
				break
			}
		}
	}
	return nil
}
