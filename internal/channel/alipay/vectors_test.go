package alipay_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
)

// What Alipay's sandbox signed, as published in the tests of github.com/yansongda/pay (MIT): the public key is the one in
// tests/Cert/alipayCertPublicKey_RSA2.crt, the notice stands in tests/Plugin/Alipay/CallbackPluginTest.php, the answer in
// tests/FunctionTest.php.
const (
	sandboxKey = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAuWJKrQ6SWvS6niI+4vEVZiYfjkCfLQfoFI2nCp9ZLDS42QtiL4Ccyx8scgc3nhVwmVRte8f5" +
		"7TFvGhvJD0upT4O5O/lRxmTjechXAorirVdAODpOu0mFfQV9y/T9o9hHnU+VmO5spoVb3umqpq6D/Pt8p25Yk852/w01VTIczrXC4QlrbOEe3sr1E9au" +
		"oC7rgYjjCO6lZUIDjX/oBmNXZxhRDrYx4Yf5X7y8FRBFvygIE2FgxV4Yw+SL3QAa2m5MLcbusJpxOml9YVQfP8iSurx41PvvXUMo49JG3BDVernaCYXQ" +
		"CoUJv9fJwbnfZd7J5YByC+5KM4sblJTq7bXZWQIDAQAB"

	sandboxNoticeSign = "C5gjBgiYDWLwS1HxGQ6D8ZM+sYpnfTKMqe7YkNxqE5cm+AXQqOHi1Pf928meGGvBUQLvIee8ziKmRbxhEgYEcJsgO/X2Zy2PNASLO1Q1b4MfjgGi" +
		"Qqfv2bpLPkfhvftF//Ih79GWj6KAPxyvRq9N0pMTkxv4yDwo637ksbK0WCsh/v90nOdYh1HxZs1pgRAIBcNgr0GPFQJtxjO7nG+ppta3wD5aYuuRxtoh" +
		"Rv1LK6ZLbAM45mMf0eUYmKsZBFIaISCVNo0mu+H+GLAJ2Z0aXZ0dti5jVkAtA0eJHmJ0da2VGCGy0wmQFSZ4AxwjSM2LQg7gn4GWMUgvKK8pDzIn6Q=="

	sandboxAnswer = `{"code":"10000","msg":"Success","buyer_logon_id":"ghd***@sandbox.com","buyer_pay_amount":"0.00",` +
		`"buyer_user_id":"2088102174698127","buyer_user_type":"PRIVATE","invoice_amount":"0.00","out_trade_no":"yansongda-1622986519",` +
		`"point_amount":"0.00","receipt_amount":"0.00","send_pay_date":"2021-06-06 21:35:40","total_amount":"0.01",` +
		`"trade_no":"2021060622001498120501382075","trade_status":"TRADE_SUCCESS"}`

	sandboxAnswerSign = "Ipp1M3pwUFJ19Tx/D+40RZstXr3VSZzGxPB1Qfj1e837UkGxOJxFFK6EZ288SeEh06dPFd4qJ7BHfP/7mvkRqF1/mezBGvhBz03XTXfDn/O6IkoA" +
		"+cVwpfm+i8MFvzC/ZQB0dgtZppu5qfzVyFaaNu8ct3L/NSQCMR1RXg2lH3HiwfxmIF35+LmCoL7ZPvTxB/epm7A/XNhAjLpK5GlJffPA0qwhhtQwaIZ7" +
		"DHMXo06z03fbgxlBu2eEclQUm6Fobgj3JEERWLA0MDQiV1EYNWuHSSlHCMrIxWHba+Euu0jVkKKe0IFKsU8xJQbc7GTJXx/o0NfHqGwwq8hMvtgBkg=="
)

func sandbox(c *alipay.Config) {
	c.AppID, c.SellerID, c.AlipayPublicKey = "2016082000295641", "2088102172237210", sandboxKey
}

func TestANoticeThatAlipayReallySigned(t *testing.T) {
	t.Parallel()
	account := open(t, sandbox)
	body := form(map[string]string{
		"gmt_create": "2022-09-18 13:29:48", "charset": "utf-8", "gmt_payment": "2022-09-18 13:30:07", "notify_time": "2022-09-18 13:30:09",
		"subject": "yansongda+测试-1", "sign": sandboxNoticeSign, "buyer_id": "2088102174698127", "invoice_amount": "0.01", "version": "1.0",
		"notify_id": "2022091800222133008098120532343049", "fund_bill_list": `[{"amount":"0.01","fundChannel":"ALIPAYACCOUNT"}]`,
		"notify_type": "trade_status_sync", "out_trade_no": "web1663478942", "total_amount": "0.01", "trade_status": "TRADE_SUCCESS",
		"trade_no": "2022091822001498120503050754", "auth_app_id": "2016082000295641", "receipt_amount": "0.01", "point_amount": "0.00",
		"app_id": "2016082000295641", "buyer_pay_amount": "0.01", "sign_type": "RSA2", "seller_id": "2088102172237210",
	})
	paidAt := time.Date(2022, 9, 18, 5, 30, 7, 0, time.UTC)
	require.NoError(t, verify(account, body, paidAt.Add(3*time.Second)))
	require.Equal(t, channel.Event{
		Kind: channel.PaySuccess, Subject: "2022091822001498120503050754", TransactionID: "2022091822001498120503050754",
		OutTradeNo: "web1663478942", Amount: 1, Currency: "CNY", PayerAmount: 1, OccurredAt: paidAt,
	}, readOne(t, account, body))
	require.Error(t, verify(open(t), body, paidAt), "under another key")
}

func TestAnAnswerThatAlipayReallySigned(t *testing.T) {
	t.Parallel()
	const reply = `{"alipay_trade_query_response":` + sandboxAnswer + `,"sign":"` + sandboxAnswerSign + `"}`
	gateway := serveReply(t, reply)
	account := open(t, sandbox, func(c *alipay.Config) { c.BaseURL = gateway })
	standing, err := account.(channel.Acquirer).Query(t.Context(), channel.Order{OutTradeNo: "yansongda-1622986519"})
	require.NoError(t, err)
	require.Equal(t, channel.OrderPaid, standing.State)
	require.Equal(t, reply, string(standing.Body))
	require.Equal(t, channel.Event{
		Kind: channel.PaySuccess, Subject: "2021060622001498120501382075", TransactionID: "2021060622001498120501382075",
		OutTradeNo: "yansongda-1622986519", Amount: 1, Currency: "CNY", OccurredAt: time.Date(2021, 6, 6, 13, 35, 40, 0, time.UTC),
	}, readOne(t, account, standing.Body))

	// One blank more between the same words, and it is not what was signed.
	gateway = serveReply(t, `{"alipay_trade_query_response":{"code": `+sandboxAnswer[len(`{"code":`):]+`,"sign":"`+sandboxAnswerSign+`"}`)
	account = open(t, sandbox, func(c *alipay.Config) { c.BaseURL = gateway })
	_, err = account.(channel.Acquirer).Query(t.Context(), channel.Order{OutTradeNo: "yansongda-1622986519"})
	require.ErrorIs(t, err, channel.ErrUnproven)
}

// The sample of the open platform's page on notices (opendocs.alipay.com/open/270/105902): a payment's notice that has
// refund_fee=0.00 and gmt_close.
func TestThePlatformsOwnSampleIsAPayment(t *testing.T) {
	t.Parallel()
	const sample = "total_amount=2.00&buyer_id=2088102116773037&body=大乐透2.1&trade_no=2016071921001003030200089909&refund_fee=0.00" +
		"&notify_time=2016-07-19 14:10:49&subject=大乐透2.1&sign_type=RSA2&charset=utf-8&notify_type=trade_status_sync" +
		"&out_trade_no=0719141034-6418&gmt_close=2016-07-19 14:10:46&gmt_payment=2016-07-19 14:10:47&trade_status=TRADE_SUCCESS&version=1.0" +
		"&gmt_create=2016-07-19 14:10:44&app_id=2015102700040153&seller_id=2088102119685838&notify_id=4a91b7a78a503640467525113fb7d8bg8e"
	values, err := url.ParseQuery(sample)
	require.NoError(t, err)
	account := open(t, func(c *alipay.Config) { c.AppID, c.SellerID = "2015102700040153", "2088102119685838" })
	require.Equal(t, channel.Event{
		Kind: channel.PaySuccess, Subject: "2016071921001003030200089909", TransactionID: "2016071921001003030200089909",
		OutTradeNo: "0719141034-6418", Amount: 200, Currency: "CNY", OccurredAt: time.Date(2016, 7, 19, 6, 10, 47, 0, time.UTC),
	}, readOne(t, account, []byte(values.Encode())))
}
