package wechatpay

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

var tradeNo = regexp.MustCompile(`^[0-9A-Za-z_\-|*]{6,32}$`)

// announced is what a prepay call says.
type announced struct {
	AppID       string `json:"appid"`
	MchID       string `json:"mchid"`
	Description string `json:"description"`
	OutTradeNo  string `json:"out_trade_no"`
	TimeExpire  string `json:"time_expire"`
	Attach      string `json:"attach"`
	NotifyURL   string `json:"notify_url"`
	Amount      struct {
		Total    int64  `json:"total"`
		Currency string `json:"currency"`
	} `json:"amount"`
	Payer *struct {
		OpenID string `json:"openid"`
	} `json:"payer"`
	SceneInfo *struct {
		PayerClientIP string `json:"payer_client_ip"`
		H5Info        *struct {
			Type string `json:"type"`
		} `json:"h5_info"`
	} `json:"scene_info"`
	SettleInfo *struct {
		ProfitSharing bool `json:"profit_sharing"`
	} `json:"settle_info"`
}

type order struct {
	announced
	method        string
	expires       time.Time
	closed        bool
	paidAt        time.Time
	transactionID string
	coupon        int64
	frozen        int64 // what may still be shared
	released      bool  // nothing may be shared any more
}

// Announcement gives what the first prepay call of an order said, for tests.
func (s *Simulator) Announcement(outTradeNo string) (json.RawMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, known := s.orders[outTradeNo]
	if !known {
		return nil, false
	}
	said, err := json.Marshal(o.announced)
	return said, err == nil
}

func (s *Simulator) tradeState(o *order) string {
	switch {
	case !o.paidAt.IsZero() && s.refunded(o, "SUCCESS") > 0:
		return "REFUND"
	case !o.paidAt.IsZero():
		return "SUCCESS"
	case o.closed, !o.expires.IsZero() && s.now().After(o.expires):
		return "CLOSED"
	default:
		return "NOTPAY"
	}
}

func (s *Simulator) prepay(r *http.Request, body []byte) answer {
	method := r.PathValue("method")
	var in announced
	if problem := decode(body, &in); problem != nil {
		return *problem
	}
	if problem := checkAnnounced(method, in); problem != nil {
		return *problem
	}
	o, known := s.orders[in.OutTradeNo]
	switch {
	case !known:
		o = &order{announced: in, method: method}
		if in.TimeExpire != "" {
			o.expires, _ = time.Parse(time.RFC3339, in.TimeExpire) // checked above
		}
		s.orders[in.OutTradeNo] = o
		s.sequence = append(s.sequence, o)
	case !o.paidAt.IsZero():
		return fail(http.StatusBadRequest, "ORDERPAID", "该订单已支付")
	case s.tradeState(o) == "CLOSED":
		return fail(http.StatusBadRequest, "ORDER_CLOSED", "该订单已关闭")
	case o.method != method || o.Amount != in.Amount || o.Description != in.Description || o.TimeExpire != in.TimeExpire:
		return fail(http.StatusForbidden, "OUT_TRADE_NO_USED", "商户订单号重复")
	}
	switch method {
	case "native":
		return ok(map[string]string{"code_url": "weixin://wxpay/bizpayurl?pr=" + nonce(5)})
	case "h5":
		return ok(map[string]string{"h5_url": "https://wx.tenpay.com/cgi-bin/mmpayweb-bin/checkmweb?prepay_id=wx" + nonce(16) + "&package=1"})
	default:
		return ok(map[string]string{"prepay_id": "wx" + nonce(16)})
	}
}

func checkAnnounced(method string, in announced) *answer {
	problem := func(text string) *answer { a := fail(http.StatusBadRequest, "PARAM_ERROR", text); return &a }
	notify, err := url.Parse(in.NotifyURL)
	switch {
	case method != "native" && method != "jsapi" && method != "h5" && method != "app":
		a := fail(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "请求的资源不存在")
		return &a
	case in.MchID != mchID:
		a := fail(http.StatusBadRequest, "MCH_NOT_EXISTS", "商户号不存在")
		return &a
	case in.AppID != appID:
		a := fail(http.StatusBadRequest, "APPID_MCHID_NOT_MATCH", "appid和mch_id不匹配")
		return &a
	case !tradeNo.MatchString(in.OutTradeNo):
		return problem("输入源“/body/out_trade_no”映射到字段“商户订单号”字符串规则校验失败")
	case in.Description == "" || len(in.Description) > 127:
		return problem("输入源“/body/description”映射到字段“商品描述”字符串规则校验失败")
	case err != nil || notify.Host == "" || notify.RawQuery != "":
		return problem("输入源“/body/notify_url”映射到字段“通知地址”规则校验失败")
	case in.Amount.Total < 1:
		return problem("输入源“/body/amount/total”映射到数值字段“总金额”规则校验失败")
	case in.Amount.Currency != "" && in.Amount.Currency != "CNY":
		return problem("目前只支持人民币")
	case method == "jsapi" && (in.Payer == nil || in.Payer.OpenID == ""):
		return problem("JSAPI支付必须传openid")
	case method == "h5" && (in.SceneInfo == nil || in.SceneInfo.PayerClientIP == "" || in.SceneInfo.H5Info == nil):
		return problem("缺少场景信息")
	}
	if in.TimeExpire != "" {
		if _, err := time.Parse(time.RFC3339, in.TimeExpire); err != nil {
			return problem("输入源“/body/time_expire”映射到字段“交易结束时间”规则校验失败")
		}
	}
	return nil
}

func (s *Simulator) query(r *http.Request, _ []byte) answer {
	if r.URL.Query().Get("mchid") != mchID {
		return fail(http.StatusBadRequest, "MCH_NOT_EXISTS", "商户号不存在")
	}
	o, known := s.orders[r.PathValue("out_trade_no")]
	if !known {
		return fail(http.StatusNotFound, "ORDER_NOT_EXIST", "订单不存在")
	}
	return ok(s.transaction(o))
}

// transaction is an order as queries and notices tell it.
func (s *Simulator) transaction(o *order) map[string]any {
	state := s.tradeState(o)
	amount := map[string]any{"total": o.Amount.Total, "currency": "CNY"}
	t := map[string]any{
		"appid": appID, "mchid": mchID, "out_trade_no": o.OutTradeNo, "trade_state": state, "trade_state_desc": descriptions[state],
		"attach": o.Attach, "amount": amount, "payer": map[string]string{}, "promotion_detail": []any{},
	}
	if o.paidAt.IsZero() {
		return t
	}
	amount["payer_total"], amount["payer_currency"] = o.Amount.Total-o.coupon, "CNY"
	t["transaction_id"], t["trade_type"], t["bank_type"] = o.transactionID, tradeTypes[o.method], "OTHERS"
	t["success_time"] = rfc3339(o.paidAt)
	t["payer"] = map[string]string{"openid": o.openID()}
	if o.coupon > 0 {
		t["promotion_detail"] = []any{map[string]any{
			"coupon_id": "109519", "name": "满减", "scope": "GLOBAL", "type": "NOCASH", "stock_id": "931386", "amount": o.coupon,
			"wechatpay_contribute": 0, "merchant_contribute": o.coupon, "other_contribute": 0, "currency": "CNY",
		}}
	}
	return t
}

func (o *order) openID() string {
	if o.Payer != nil {
		return o.Payer.OpenID
	}
	return "oSIMULATEDPAYER0000000000000"
}

var (
	descriptions = map[string]string{"SUCCESS": "支付成功", "REFUND": "转入退款", "NOTPAY": "订单未支付", "CLOSED": "订单已关闭"}
	tradeTypes   = map[string]string{"native": "NATIVE", "jsapi": "JSAPI", "h5": "MWEB", "app": "APP"}
)

func (s *Simulator) close(r *http.Request, body []byte) answer {
	var in struct {
		MchID string `json:"mchid"`
	}
	if problem := decode(body, &in); problem != nil {
		return *problem
	}
	o, known := s.orders[r.PathValue("out_trade_no")]
	switch {
	case in.MchID != mchID:
		return fail(http.StatusBadRequest, "MCH_NOT_EXISTS", "商户号不存在")
	case !known:
		return fail(http.StatusNotFound, "ORDER_NOT_EXIST", "订单不存在")
	case !o.paidAt.IsZero():
		return fail(http.StatusBadRequest, "ORDERPAID", "该订单已支付")
	case s.tradeState(o) == "CLOSED":
		return fail(http.StatusBadRequest, "ORDER_CLOSED", "该订单已关闭")
	}
	o.closed = true
	return noContent
}

func decode(body []byte, v any) *answer {
	if err := json.Unmarshal(body, v); err != nil {
		a := fail(http.StatusBadRequest, "PARAM_ERROR", "请求体不是JSON格式")
		return &a
	}
	return nil
}
