package alipay

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// bill gives the address of a day's bill. A day that is not over has none, and a day without trades has none either.
func (s *Simulator) bill(r request) fields {
	day, err := time.ParseInLocation(time.DateOnly, r.text("bill_date"), shanghai)
	switch {
	case err != nil || r.text("bill_type") != "trade" || s.now().Before(day.AddDate(0, 0, 1)):
		return fail("40004", "invalid_arguments", "入参不合法")
	case len(s.rows(day)) == 0:
		return fail("40004", "isp.bill_not_exist", "账单不存在")
	}
	return yes(fields{"bill_download_url": s.base + "/downloadBillFile.resource?" + url.Values{"fileId": {day.Format(time.DateOnly)}}.Encode()})
}

func (s *Simulator) download(w http.ResponseWriter, r *http.Request) {
	day, err := time.ParseInLocation(time.DateOnly, r.URL.Query().Get("fileId"), shanghai)
	if err != nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	s.mu.Lock()
	file := s.file(day)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(file) // a caller that hung up has its reasons
}

type row struct {
	order  *order
	refund *refund // nil in the row of the payment
}

// rows lists what was paid and refunded on a day.
func (s *Simulator) rows(day time.Time) (list []row) {
	on := func(t time.Time) bool { return !t.Before(day) && t.Before(day.AddDate(0, 0, 1)) }
	for _, o := range s.orders {
		if on(o.paidAt) {
			list = append(list, row{o, nil})
		}
		for _, r := range o.refunds {
			if r.done && r.amount > 0 && on(r.at) {
				list = append(list, row{o, r})
			}
		}
	}
	return list
}

const billHead = "支付宝交易号,商户订单号,业务类型,商品名称,创建时间,完成时间,门店编号,门店名称,操作员,终端号,对方账户,订单金额（元）,商家实收（元）,支付宝红包（元）," +
	"集分宝（元）,支付宝优惠（元）,商家优惠（元）,券核销金额（元）,券名称,商家红包消费金额（元）,卡消费金额（元）,退款批次号/请求号,服务费（元）,分润（元）,备注"

// file is a zip of the details and their sums, in GBK, names included.
func (s *Simulator) file(day time.Time) []byte {
	var details, sums strings.Builder
	line := func(b *strings.Builder, format string, args ...any) { fmt.Fprintf(b, format+"\r\n", args...) }
	from, until := day.Format("2006年01月02日 15:04:05"), day.AddDate(0, 0, 1).Format("2006年01月02日 15:04:05")
	for _, b := range []*strings.Builder{&details, &sums} {
		line(b, "#支付宝业务%s查询", map[bool]string{true: "明细", false: "汇总"}[b == &details])
		line(b, "#账号：[%s0156]", sellerID)
		line(b, "#起始日期：[%s]   终止日期：[%s]", from, until)
	}
	line(&details, "#-----------------------------------------业务明细列表----------------------------------------")
	line(&details, "%s", billHead)
	var paid, refunded int64
	var payments, refunds int
	for _, r := range s.rows(day) {
		line(&details, "%s", r.csv())
		if r.refund == nil {
			payments, paid = payments+1, paid+r.order.amount
		} else {
			refunds, refunded = refunds+1, refunded+r.refund.amount
		}
	}
	line(&details, "#-----------------------------------------业务明细列表结束------------------------------------")
	for _, b := range []*strings.Builder{&details, &sums} {
		line(b, "#交易合计：%d笔，商家实收共%s元，商家优惠共0.00元", payments, yuan(paid))
		line(b, "#退款合计：%d笔，商家实收退款共%s元，商家优惠退款共0.00元", refunds, negative(refunded))
		line(b, "#导出时间：[%s]", s.now().In(shanghai).Format("2006年01月02日 15:04:05"))
	}
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range []struct{ name, text string }{{"业务明细", details.String()}, {"业务明细(汇总)", sums.String()}} {
		name := gbk(sellerID + "0156_" + day.Format("20060102") + "_" + f.name + ".csv")
		w, err := archive.CreateHeader(&zip.FileHeader{Name: name, NonUTF8: true, Method: zip.Deflate})
		if err != nil {
			panic(err) // memory takes every file
		}
		_, _ = w.Write([]byte(gbk(f.text))) // into memory
	}
	_ = archive.Close() // into memory
	return out.Bytes()
}

func negative(minor int64) string {
	if minor == 0 {
		return yuan(0)
	}
	return "-" + yuan(minor)
}

func gbk(text string) string {
	encoded, err := simplifiedchinese.GBK.NewEncoder().String(text)
	if err != nil {
		return "?"
	}
	return encoded
}

func (r row) csv() string {
	o := r.order
	kind, amount, finished, number, fee := "交易", yuan(o.amount), o.paidAt, "\t", negative(feeOf(o.amount))
	if r.refund != nil {
		kind, amount, finished, number, fee = "退款", negative(r.refund.amount), r.refund.at, r.refund.number+"\t", yuan(feeOf(r.refund.amount))
	}
	return strings.Join([]string{
		o.tradeNo + "\t", o.outTradeNo + "\t", kind + "\t", strings.ReplaceAll(o.subject, ",", "，") + "\t", at(o.createdAt), at(finished),
		"\t", "\t", "\t", "\t", "**人(159******20)\t", amount, amount, "0.00", "0.00", "0.00", "0.00", "0.00", "", "0.00\t", "0.00", number, fee, "0.00", "",
	}, ",")
}
