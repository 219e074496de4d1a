package alipay_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/channeltest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	with := func(change func(*alipay.Config)) []byte {
		cfg := goodConfig(t)
		change(&cfg)
		return toJSON(t, cfg)
	}
	channeltest.Run(t, channeltest.Harness{
		Channel:   alipay.Channel{},
		Config:    toJSON(t, goodConfig(t)),
		ValidKeys: 1,
		RefusedConfigs: map[string][]byte{
			"nothing":                   nil,
			"not JSON":                  []byte("app_id"),
			"empty":                     []byte("{}"),
			"no app":                    with(func(c *alipay.Config) { c.AppID = "" }),
			"no seller":                 with(func(c *alipay.Config) { c.SellerID = "" }),
			"a seller with blanks":      with(func(c *alipay.Config) { c.SellerID = "2088 1" }),
			"a seller by login":         with(func(c *alipay.Config) { c.SellerID = "seller@example.com" }),
			"an app for the seller":     with(func(c *alipay.Config) { c.SellerID = appID }),
			"no private key":            with(func(c *alipay.Config) { c.AppPrivateKey = "" }),
			"no public key":             with(func(c *alipay.Config) { c.AlipayPublicKey = "" }),
			"a blank public key":        with(func(c *alipay.Config) { c.AlipayPublicKey = " \n" }),
			"keys swapped":              with(func(c *alipay.Config) { c.AppPrivateKey, c.AlipayPublicKey = c.AlipayPublicKey, c.AppPrivateKey }),
			"the app's own key":         with(func(c *alipay.Config) { c.AlipayPublicKey = publicText(t, &appKey().PublicKey) }),
			"not base64":                with(func(c *alipay.Config) { c.AlipayPublicKey = "MII???" }),
			"not a key":                 with(func(c *alipay.Config) { c.AlipayPublicKey = "aGVsbG8=" }),
			"a short private key":       with(func(c *alipay.Config) { c.AppPrivateKey = privateText(newKey(1024)) }),
			"a short public key":        with(func(c *alipay.Config) { c.AlipayPublicKey = publicText(t, &newKey(1024).PublicKey) }),
			"an unknown sign_type":      with(func(c *alipay.Config) { c.SignType = "MD5" }),
			"sign_type in another case": with(func(c *alipay.Config) { c.SignType = "rsa2" }),
			"http elsewhere":            with(func(c *alipay.Config) { c.BaseURL = "http://openapi.alipay.com/gateway.do" }),
			"a typing slip":             []byte(strings.Replace(string(toJSON(t, goodConfig(t))), "alipay_public_key", "alipay_publickey", 1)),
		},
		Seal: func(t *testing.T, _ int, body []byte, at time.Time) []byte {
			return rsa2(alipayKey()).seal(t, body, at)
		},
		SealWrong: func(t *testing.T, body []byte, at time.Time) []byte {
			return rsa2(otherKey()).seal(t, body, at)
		},
		Reseal: func(_ *testing.T, sealed []byte, signature string) []byte { return reseal(sealed, signature) },
		Success: func(_ *testing.T, p channeltest.Payment) []byte {
			amount := fmt.Sprintf("%d.%02d", p.Amount/100, p.Amount%100)
			if p.Amount < 0 {
				amount = "-0.01"
			}
			return notice(map[string]string{"trade_no": p.TransactionID, "out_trade_no": p.OutTradeNo, "total_amount": amount, "buyer_pay_amount": "-"})
		},
		OneCurrency: true,
		UnknownType: []byte("notify_type=batch_refund_notify&batch_no=20060702001&success_num=2"),
		Unusable: map[string][]byte{
			"no status":                          notice(map[string]string{"trade_status": "-"}),
			"an empty status":                    notice(map[string]string{"trade_status": ""}),
			"an unknown status":                  notice(map[string]string{"trade_status": "TRADE_PENDING"}),
			"a status in another case":           notice(map[string]string{"trade_status": "trade_success"}),
			"three decimals":                     notice(map[string]string{"total_amount": "99.001"}),
			"an exponent":                        notice(map[string]string{"total_amount": "1e2"}),
			"a thousands separator":              notice(map[string]string{"total_amount": "1,000.00"}),
			"a blank before":                     notice(map[string]string{"total_amount": " 99.00"}),
			"more than 64 bits":                  notice(map[string]string{"total_amount": "92233720368547758.08"}),
			"no total":                           notice(map[string]string{"total_amount": "-"}),
			"a payer's amount that is none":      notice(map[string]string{"buyer_pay_amount": "nothing"}),
			"a time that is none":                notice(map[string]string{"gmt_payment": "2026-02-30 10:00:00"}),
			"a time before time":                 notice(map[string]string{"gmt_payment": "0001-01-01 00:00:00"}),
			"a currency that is none":            notice(map[string]string{"trans_currency": "YUAN"}),
			"another unit than the currency has": notice(map[string]string{"trans_currency": "JPY"}),
			"bytes that are no text":             append(notice(map[string]string{"out_trade_no": "-"}), "&out_trade_no=%CA%F7"...),
			"a refund without its payment":       notice(map[string]string{"refund_fee": "1.00", "trade_no": ""}),
		},
		AcceptedStatus: http.StatusOK,
		AcceptedBody:   "success",
	})
}

func TestTheAckIsTheSevenBytesAndNothingElse(t *testing.T) {
	t.Parallel()
	ack := alipay.Channel{}.Accepted()
	require.Equal(t, channel.Ack{Status: 200, ContentType: "text/plain", Body: []byte{'s', 'u', 'c', 'c', 'e', 's', 's'}}, ack)
	for _, status := range []int{400, 401, 404, 413, 500, 503} {
		require.Equal(t, channel.Ack{Status: status, ContentType: "text/plain", Body: []byte("failure")}, alipay.Channel{}.Refused(status, "code", "detail"))
	}
}

func FuzzParse(f *testing.F) {
	cfg := alipay.Config{AppID: appID, SellerID: sellerID, AppPrivateKey: privateText(appKey())}
	cfg.AlipayPublicKey = publicText(&testing.T{}, &alipayKey().PublicKey)
	account, err := alipay.Channel{}.Open("main", toJSON(&testing.T{}, cfg))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(notice(nil))
	for _, change := range []map[string]string{
		{"trade_status": "TRADE_CLOSED"}, {"trade_status": "WAIT_BUYER_PAY"}, {"refund_fee": "1.00", "out_biz_no": "r"},
		{"charset": "GBK", "out_trade_no": "\xca\xf7"}, {"total_amount": "-1"},
	} {
		f.Add(notice(change))
	}
	for _, seed := range []string{
		"", "&", "=", "a=1&a=2", "%", "msg_method=x", "{", "{}",
		`{"alipay_trade_query_response":{"code":"10000","trade_no":"1","out_trade_no":"o","trade_status":"TRADE_SUCCESS","total_amount":1.5},"sign":"x"}`,
		`{"alipay_trade_fastpay_refund_query_response":{"code":"10000","trade_no":"1","out_request_no":"r","refund_status":"REFUND_SUCCESS","refund_amount":"1"}}`,
		`{"alipay_trade_order_settle_query_response":{"code":"10000","out_request_no":"s","royalty_detail_list":[{"trans_in":"2088","state":"FAIL","amount":"1.00"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		require.Error(t, verify(account, body, time.Now()), "nobody can sign by chance")
		events, err := channel.Read(account, body)
		if err != nil {
			var unusable *channel.Unusable
			require.True(t, errors.As(err, &unusable))
			require.Empty(t, events)
			return
		}
		require.NotEmpty(t, events)
		for _, e := range events {
			switch e.Kind {
			case channel.PaySuccess:
				require.Positive(t, e.Amount)
				require.NotEmpty(t, e.OutTradeNo)
				require.NotEmpty(t, e.TransactionID)
			case channel.RefundHint:
				require.Zero(t, e.Amount)
				require.Empty(t, e.Currency)
			}
		}
	})
}
