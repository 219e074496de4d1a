package alipay

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// notify tells the merchant how a trade stands; r is the refund that it tells of. The order of parameters is none, and some
// are empty.
func (s *Simulator) notify(o *order, r *refund) {
	charset, signType := s.quirks.Charset, s.signType
	if charset == "" {
		charset = "utf-8"
	}
	pairs := [][2]string{
		{"total_amount", yuan(o.amount)}, {"buyer_id", "2088000000000099"}, {"body", ""}, {"trade_no", o.tradeNo}, {"subject", o.subject},
		{"buyer_logon_id", "159****5620"}, {"charset", charset}, {"notify_type", "trade_status_sync"}, {"out_trade_no", o.outTradeNo},
		{"trade_status", o.status}, {"version", "1.0"}, {"gmt_create", at(o.createdAt)}, {"app_id", appID}, {"auth_app_id", appID},
		{"seller_id", sellerID}, {"seller_email", "seller@example.com"}, {"notify_id", "sim" + s.number()},
	}
	if !o.paidAt.IsZero() {
		pairs = append(pairs, [][2]string{
			{"gmt_payment", at(o.paidAt)}, {"buyer_pay_amount", yuan(o.payer)}, {"receipt_amount", yuan(o.amount)}, {"point_amount", "0.00"},
			{"invoice_amount", yuan(o.payer)}, {"fund_bill_list", `[{"amount":"` + yuan(o.payer) + `","fundChannel":"ALIPAYACCOUNT"}]`},
		}...)
	}
	if !o.closedAt.IsZero() || o.status == statusFinished {
		pairs = append(pairs, [2]string{"gmt_close", at(o.closedAt)})
	}
	if r != nil {
		pairs = append(pairs, [][2]string{
			{"out_biz_no", r.number}, {"refund_fee", yuan(o.refunded(false))}, {"gmt_refund", r.at.In(shanghai).Format(timeLayout + ".000")},
		}...)
	}
	s.core.Notify(o.notifyURL, func(signWith string, sentAt time.Time) (http.Header, []byte) {
		return http.Header{"Content-Type": {"application/x-www-form-urlencoded; text/html; charset=" + charset}},
			s.message(append(pairs[:len(pairs):len(pairs)], [2]string{"notify_time", at(sentAt)}), charset, signType, signWith)
	})
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(shanghai).Format(timeLayout)
}

// message signs the bytes that the parameters have in the message's charset.
func (s *Simulator) message(pairs [][2]string, charset, signType, signWith string) []byte {
	values := url.Values{}
	for _, pair := range pairs {
		value := pair[1]
		if strings.EqualFold(charset, "gbk") {
			encoded, err := simplifiedchinese.GBK.NewEncoder().String(value)
			if err != nil {
				encoded = "?"
			}
			value = encoded
		}
		values.Set(pair[0], value)
	}
	values.Set("sign", s.signature(signWith, joined(values)))
	values.Set("sign_type", signType)
	var body strings.Builder
	for _, name := range append(names(pairs), "sign_type", "sign") {
		if body.Len() > 0 {
			body.WriteByte('&')
		}
		body.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(values.Get(name)))
	}
	return []byte(body.String())
}

func (s *Simulator) signature(signWith string, text []byte) string {
	switch signWith {
	case "":
		return s.sign(s.alipay, text)
	case "old":
		return s.sign(s.old(), text)
	case "wrong":
		return s.sign(s.wrong(), text)
	}
	return "this was never signed"
}

func names(pairs [][2]string) (list []string) {
	for _, pair := range pairs {
		list = append(list, pair[0])
	}
	return list
}
