package wechatpay

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // the protocol's hash of bills
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// bill is a file that waits for its download.
type bill struct {
	gzip    bool
	content []byte
	until   time.Time
}

// linkLife is how long a link can be used.
const linkLife = 5 * time.Minute

// tradeBill makes a day's bill; today's too, since tests do not wait for tomorrow.
func (s *Simulator) tradeBill(r *http.Request, _ []byte) answer {
	query := r.URL.Query()
	day, err := time.ParseInLocation(time.DateOnly, query.Get("bill_date"), chinaTime)
	switch {
	case err != nil:
		return fail(http.StatusBadRequest, "PARAM_ERROR", "账单日期格式不正确")
	case query.Get("bill_type") != "" && query.Get("bill_type") != "ALL":
		return fail(http.StatusBadRequest, "PARAM_ERROR", "模拟器只提供ALL账单")
	case day.After(s.now()) || day.Before(s.now().AddDate(0, -3, 0)):
		return fail(http.StatusBadRequest, "INVALID_REQUEST", "请检查bill_date")
	case s.noBills:
		return fail(http.StatusBadRequest, "STATEMENT_CREATING", "账单生成中")
	}
	content, rows := s.billOf(day)
	if rows == 0 {
		return fail(http.StatusBadRequest, "NO_STATEMENT_EXIST", "请求的账单文件不存在")
	}
	sum := sha1.Sum(content) //nolint:gosec // see above
	token := nonce(24)
	s.bills[token] = bill{query.Get("tar_type") == "GZIP", content, time.Now().Add(linkLife)}
	// A router in front may have cut a prefix from the path; the link must have it.
	path, _, _ := strings.Cut(r.RequestURI, "?")
	prefix := strings.TrimSuffix(path, r.URL.Path)
	return ok(map[string]string{
		"hash_type": "SHA1", "hash_value": hex.EncodeToString(sum[:]),
		"download_url": "http://" + r.Host + prefix + "/v3/billdownload/file?token=" + token,
	})
}

// download gives a file; like the real one it is not signed.
func (s *Simulator) download(w http.ResponseWriter, r *http.Request) {
	if problem := s.keys.authorized(r, nil); problem != "" {
		http.Error(w, `{"code":"SIGN_ERROR","message":"`+problem+`"}`, http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	b, known := s.bills[r.URL.Query().Get("token")]
	s.mu.Unlock()
	if !known || time.Now().After(b.until) {
		http.Error(w, `{"code":"INVALID_REQUEST","message":"下载链接已失效"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	content := b.content
	if b.gzip {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(content) // a buffer takes all
		_ = z.Close()           // as above
		content = packed.Bytes()
	}
	_, _ = w.Write(content) // a caller that hung up has its reasons
}

const (
	billHeader = "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,货币种类,应结订单金额,代金券金额," +
		"微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,商品名称,商户数据包,手续费,费率,订单金额,申请退款金额,费率备注"
	billTotals = "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额"
)

type billRow struct {
	at     time.Time
	fields []string
}

// billOf writes the bill of a day in China: what was paid, and what refunds were accepted.
func (s *Simulator) billOf(day time.Time) (content []byte, rows int) {
	within := func(t time.Time) bool {
		return !t.IsZero() && t.In(chinaTime).Format(time.DateOnly) == day.Format(time.DateOnly)
	}
	var list []billRow
	var settled, back, fee, total, asked int64
	for _, o := range s.sequence {
		if !within(o.paidAt) {
			continue
		}
		net := o.Amount.Total - o.coupon
		settled, total, fee = settled+net, total+o.Amount.Total, fee+net
		list = append(list, billRow{o.paidAt, []string{
			billTime(o.paidAt), appID, mchID, "0", "", o.transactionID, o.OutTradeNo, o.openID(), tradeTypes[o.method], "SUCCESS", "OTHERS", "CNY",
			yuan(net), yuan(o.coupon), "0", "0", "0.00", "0.00", "", "", billText(o.Description), billText(o.Attach), feeOf(net), "0.60%", yuan(o.Amount.Total), "0.00", "",
		}})
	}
	for _, number := range slices.Sorted(maps.Keys(s.refunds)) {
		r := s.refunds[number]
		if !within(r.created) || r.status == "CLOSED" {
			continue
		}
		status := map[string]string{"PROCESSING": "PROCESSING", "SUCCESS": "SUCCESS", "ABNORMAL": "CHANGE"}[r.status]
		back, asked, fee = back+r.Amount.Refund, asked+r.Amount.Refund, fee-r.Amount.Refund
		list = append(list, billRow{r.created, []string{
			billTime(r.created), appID, mchID, "0", "", r.order.transactionID, r.order.OutTradeNo, r.order.openID(), tradeTypes[r.order.method], "REFUND", "OTHERS", "CNY",
			"0.00", "0.00", r.id, r.OutRefundNo, yuan(r.Amount.Refund), "0.00", "ORIGINAL", status, billText(r.order.Description), billText(r.order.Attach),
			feeOf(-r.Amount.Refund), "0.60%", "0.00", yuan(r.Amount.Refund), "",
		}})
	}
	slices.SortStableFunc(list, func(a, b billRow) int { return a.at.Compare(b.at) })
	var text strings.Builder
	text.WriteString("\ufeff" + billHeader + "\r\n")
	for _, row := range list {
		text.WriteString("`" + strings.Join(row.fields, ",`") + "\r\n")
	}
	text.WriteString(billTotals + "\r\n")
	fmt.Fprintf(&text, "`%d,`%s,`%s,`0.00,`%s,`%s,`%s\r\n", len(list), yuan(settled), yuan(back), feeOf(fee), yuan(total), yuan(asked))
	return []byte(text.String()), len(list)
}

func billTime(t time.Time) string { return t.In(chinaTime).Format(time.DateTime) }

// billText keeps a text within its line. Commas stay: a reader has the backticks to go by.
func billText(s string) string { return strings.NewReplacer("\r", " ", "\n", " ", "`", " ").Replace(s) }

// yuan writes fen as yuan.
func yuan(fen int64) string {
	sign := ""
	if fen < 0 {
		sign, fen = "-", -fen
	}
	return fmt.Sprintf("%s%d.%02d", sign, fen/100, fen%100)
}

// feeOf writes 0.60% of so many fen in yuan, with the five decimals of WeChat Pay's bills.
func feeOf(fen int64) string {
	parts := fen * 6 // of a hundred-thousandth of a yuan
	sign := ""
	if parts < 0 {
		sign, parts = "-", -parts
	}
	return fmt.Sprintf("%s%d.%05d", sign, parts/100_000, parts%100_000)
}
