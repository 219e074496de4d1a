package alipay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func TestAnAnswerThatIsNoFactIsNotReadAsOne(t *testing.T) {
	t.Parallel()
	account := open(t)
	trade := func(fields string) string {
		return `{"alipay_trade_query_response":{"code":"10000","msg":"Success",` + fields + `},"sign":"x"}`
	}
	for name, body := range map[string]string{
		"a failure":                 `{"alipay_trade_query_response":` + failing("40004", "ACQ.TRADE_NOT_EXIST") + `}`,
		"a failure with a status":   `{"alipay_trade_query_response":{"code":"40004","trade_no":"1","out_trade_no":"o","trade_status":"TRADE_SUCCESS","total_amount":"1.00"}}`,
		"no code":                   `{"alipay_trade_query_response":{"trade_no":"1","out_trade_no":"o","trade_status":"TRADE_SUCCESS","total_amount":"1.00"}}`,
		"an error of the gateway":   `{"error_response":` + failing("40002", "isv.invalid-signature") + `}`,
		"another method's":          `{"alipay_trade_refund_response":{"code":"10000","trade_no":"1","fund_change":"Y","refund_fee":"1.00"}}`,
		"nothing":                   `{}`,
		"no object":                 `{"alipay_trade_query_response":"TRADE_SUCCESS"}`,
		"an empty one":              `{"alipay_trade_query_response":null}`,
		"a field twice":             trade(`"trade_no":"1","out_trade_no":"o","trade_status":"TRADE_CLOSED","trade_status":"TRADE_SUCCESS","total_amount":"1.00"`),
		"an amount in an object":    trade(`"trade_no":"1","out_trade_no":"o","trade_status":"TRADE_SUCCESS","total_amount":{}`),
		"an amount of three digits": trade(`"trade_no":"1","out_trade_no":"o","trade_status":"TRADE_SUCCESS","total_amount":"1.001"`),
		"no number of the trade":    trade(`"out_trade_no":"o","trade_status":"TRADE_SUCCESS","total_amount":"1.00"`),
		"an unknown status":         trade(`"trade_no":"1","out_trade_no":"o","trade_status":"TRADE_PENDING","total_amount":"1.00"`),
		"a refund that is not done": `{"alipay_trade_fastpay_refund_query_response":{"code":"10000","trade_no":"1","out_request_no":"r","refund_amount":"1.00"}}`,
		"a refund of nothing":       `{"alipay_trade_fastpay_refund_query_response":{"code":"10000","trade_no":"1","out_request_no":"r","refund_status":"REFUND_SUCCESS","refund_amount":"0.00"}}`,
		"a sharing under way":       `{"alipay_trade_order_settle_query_response":{"code":"10000","out_request_no":"s","royalty_detail_list":[{"trans_in":"2088","state":"PROCESSING","amount":"1.00"}]}}`,
	} {
		t.Log(name)
		requireUnusable(t, account, []byte(body))
	}
}

func TestAnAnswersAmountsMayBeNumbers(t *testing.T) {
	t.Parallel()
	e := readOne(t, open(t), []byte(`{"alipay_trade_query_response":{"code":10000,"trade_no":"1","out_trade_no":"o","trade_status":"TRADE_FINISHED","total_amount":99.5,
		"buyer_pay_amount":"99.50","send_pay_date":"2026-03-01 00:00:00"},"sign":"x"}`))
	require.Equal(t, channel.PaySuccess, e.Kind)
	require.EqualValues(t, 9950, e.Amount)
	require.EqualValues(t, 9950, e.PayerAmount)
	require.Equal(t, time.Date(2026, 2, 28, 16, 0, 0, 0, time.UTC), e.OccurredAt.UTC())
}
