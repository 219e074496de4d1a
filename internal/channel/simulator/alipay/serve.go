package alipay

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1"
	_ "crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// fields is the content of an answer.
type fields map[string]any

func fail(code, sub, text string) fields {
	msg := map[string]string{"20000": "Service Currently Unavailable", "40002": "Invalid Arguments", "40004": "Business Failed"}[code]
	return fields{"code": code, "msg": msg, "sub_code": sub, "sub_msg": text}
}

// no is a business refusal.
func no(sub, text string) fields { return fail("40004", "ACQ."+sub, text) }

func yes(f fields) fields {
	f["code"], f["msg"] = "10000", "Success"
	return f
}

// methods of the gateway: how a call counts, which of the merchant's numbers it names, and what it does.
var methods = map[string]struct {
	kind   string
	number string
	do     func(s *Simulator, r request) fields
}{
	"alipay.trade.precreate":                         {"prepay", "out_trade_no", (*Simulator).precreate},
	"alipay.trade.query":                             {"query", "out_trade_no", (*Simulator).query},
	"alipay.trade.close":                             {"close", "out_trade_no", (*Simulator).closeTrade},
	"alipay.trade.refund":                            {"refund", "out_request_no", (*Simulator).refundTrade},
	"alipay.trade.fastpay.refund.query":              {"query_refund", "out_request_no", (*Simulator).queryRefund},
	"alipay.trade.order.settle":                      {"share", "out_request_no", (*Simulator).settle},
	"alipay.trade.order.settle.query":                {"query_share", "out_request_no", (*Simulator).querySettle},
	"alipay.trade.royalty.relation.bind":             {"bind", "out_request_no", (*Simulator).bind},
	"alipay.data.dataservice.bill.downloadurl.query": {"bill", "bill_date", (*Simulator).bill},
}

// request is a call whose signature holds.
type request struct {
	params  url.Values
	content map[string]any
}

func (r request) text(name string) string {
	switch v := r.content[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

func (s *Simulator) serve(w http.ResponseWriter, req *http.Request) {
	if err := req.ParseForm(); err != nil {
		http.Error(w, "not a form", http.StatusBadRequest)
		return
	}
	method := req.Form.Get("method")
	m := methods[method]
	r, refused := s.admit(req)
	kind, number := m.kind, r.text(m.number)
	switch {
	case kind == "share" && r.content["royalty_parameters"] == nil:
		kind = "finish_share"
	case kind == "refund" && r.content["refund_royalty_parameters"] != nil:
		kind = "return_share"
	case kind == "query_refund" && s.isReturn(number):
		kind = "query_return"
	}
	member := strings.ReplaceAll(method, ".", "_") + "_response"
	if m.do == nil {
		member, refused = "error_response", fail("40002", "isv.invalid-method", "不存在的方法名")
	}
	s.core.Serve(w, kind, number, func() *simulator.Answer {
		answer := refused
		if answer == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			answer = m.do(s, r)
		}
		return s.answer(member, answer)
	}, s.garble)
}

// admit checks a call at the door: the app first, as the gateway does, then the signature over all parameters but sign.
func (s *Simulator) admit(req *http.Request) (request, fields) {
	form := req.Form
	for _, values := range form {
		if len(values) != 1 {
			return request{}, fail("40002", "isv.invalid-parameter", "参数重复")
		}
	}
	if form.Get("app_id") != appID {
		return request{}, fail("40002", "isv.invalid-app-id", "无效的AppID参数")
	}
	if req.URL.Query().Get("charset") == "" {
		return request{}, fail("40002", "isv.invalid-signature", "验签出错, 请确认charset参数放在了URL查询字符串中")
	}
	hash, known := map[string]crypto.Hash{"RSA2": crypto.SHA256, "RSA": crypto.SHA1}[form.Get("sign_type")]
	signature, err := base64.StdEncoding.DecodeString(form.Get("sign"))
	if !known || err != nil || rsa.VerifyPKCS1v15(&s.app.PublicKey, hash, digest(hash, joined(form)), signature) != nil {
		return request{}, fail("40002", "isv.invalid-signature", "无效签名")
	}
	if _, err := time.ParseInLocation(timeLayout, form.Get("timestamp"), shanghai); err != nil {
		return request{}, fail("40002", "isv.invalid-timestamp", "非法的时间戳参数")
	}
	if form.Get("version") != "1.0" || !strings.EqualFold(form.Get("charset"), "utf-8") {
		return request{}, fail("40002", "isv.invalid-parameter", "参数无效")
	}
	r := request{params: form}
	decoder := json.NewDecoder(strings.NewReader(form.Get("biz_content")))
	decoder.UseNumber()
	if decoder.Decode(&r.content) != nil {
		return request{}, fail("40002", "isv.illegal-json", "业务参数不是JSON")
	}
	return r, nil
}

func joined(form url.Values) []byte {
	var pairs []string
	for name := range form {
		if value := form.Get(name); name != "sign" && value != "" {
			pairs = append(pairs, name+"="+value)
		}
	}
	slices.Sort(pairs)
	return []byte(strings.Join(pairs, "&"))
}

func digest(hash crypto.Hash, text []byte) []byte {
	h := hash.New()
	h.Write(text)
	return h.Sum(nil)
}

func (s *Simulator) sign(key *rsa.PrivateKey, text []byte) string {
	hash := crypto.SHA256
	if s.signType == "RSA" {
		hash = crypto.SHA1
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, hash, digest(hash, text))
	if err != nil {
		panic(err) // a key of 2048 bits signs
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// answer signs the text of the member as it stands. What the gateway says to an app that it does not know is not signed.
func (s *Simulator) answer(member string, f fields) *simulator.Answer {
	content, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts, numbers and lists always marshal
	}
	// The text is signed with whatever blanks it has.
	content = bytes.Replace(content, []byte(`","`), []byte(`", "`), 1)
	body := fmt.Sprintf(`{"%s":%s,"sign":"%s"}`, member, content, s.sign(s.alipay, content))
	if f["sub_code"] == "isv.invalid-app-id" {
		body = fmt.Sprintf(`{"%s":%s}`, member, content)
	}
	return &simulator.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html;charset=utf-8"}}, Body: []byte(body)}
}

// garble puts a stranger's signature where Alipay's stands.
func (s *Simulator) garble(a *simulator.Answer) {
	content, _, _ := bytes.Cut(a.Body, []byte(`,"sign":"`))
	_, signed, _ := bytes.Cut(content, []byte(`:`))
	a.Body = []byte(string(content) + `,"sign":"` + s.sign(s.wrong(), signed) + `"}`)
}

// open is a payer who opens a page's address: only now Alipay hears of the order.
func (s *Simulator) open(w http.ResponseWriter, req *http.Request) {
	if err := req.ParseForm(); err != nil {
		http.Error(w, "not a query", http.StatusBadRequest)
		return
	}
	r, refused := s.admit(req)
	method := r.params.Get("method")
	if refused == nil && method != "alipay.trade.page.pay" && method != "alipay.trade.wap.pay" {
		refused = fail("40002", "isv.invalid-method", "不存在的方法名")
	}
	s.core.Serve(w, "prepay", r.text("out_trade_no"), func() *simulator.Answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer := refused
		if answer == nil {
			var o *order
			if o, answer = s.announce(r); answer == nil && o.status == statusCode {
				s.scan(o)
			}
		}
		page, status := "<!doctype html><title>Alipay</title><p>"+html.EscapeString(r.text("subject"))+" "+html.EscapeString(r.text("total_amount")), http.StatusOK
		if answer != nil {
			page, status = html.EscapeString(fmt.Sprint(answer["sub_code"], " ", answer["sub_msg"])), http.StatusBadRequest
		}
		return &simulator.Answer{Status: status, Header: http.Header{"Content-Type": {"text/html;charset=utf-8"}}, Body: []byte(page)}
	}, func(*simulator.Answer) {})
}
