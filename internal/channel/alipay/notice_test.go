package alipay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

const tradeNo = "2026030122001400000000000001"

func TestAPaymentsNotice(t *testing.T) {
	t.Parallel()
	require.Equal(t, channel.Event{
		Kind: channel.PaySuccess, Subject: tradeNo, TransactionID: tradeNo, OutTradeNo: "order-1",
		Amount: 9900, Currency: "CNY", PayerAmount: 8900, OccurredAt: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC),
	}, readOne(t, open(t), notice(nil)))
}

func TestAmountsWithFewerDecimalsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"99": 9900, "99.5": 9950, "99.05": 9905, "0.01": 1} {
		require.Equal(t, want, readOne(t, open(t), notice(map[string]string{"total_amount": text})).Amount, text)
	}
}

func TestPaidTwiceOverIsOneEvent(t *testing.T) {
	t.Parallel()
	account := open(t)
	first := notice(nil)
	later := notice(map[string]string{"trade_status": "TRADE_FINISHED", "gmt_close": "2027-03-01 16:00:00", "notify_id": "another"})
	require.Equal(t, readOne(t, account, first), readOne(t, account, later))
	require.Equal(t, readOne(t, account, first).Key("alipay", first), readOne(t, account, later).Key("alipay", later))
}

func TestARefundsNoticeIsAHintAndNeverAPayment(t *testing.T) {
	t.Parallel()
	account := open(t)
	keys := map[string]string{}
	for name, change := range map[string]map[string]string{
		"a part":                         {"out_biz_no": "R1", "refund_fee": "1.00", "gmt_refund": "2026-03-01 17:00:00.123"},
		"another part":                   {"out_biz_no": "R2", "refund_fee": "2.00", "gmt_refund": "2026-03-01 17:00:01.123"},
		"all":                            {"trade_status": "TRADE_CLOSED", "out_biz_no": "R3", "refund_fee": "99.00", "gmt_refund": "2026-03-01 17:00:02.1"},
		"past the time":                  {"trade_status": "TRADE_FINISHED", "out_biz_no": "R4", "refund_fee": "1.00"},
		"only an amount":                 {"refund_fee": "1.00"},
		"another amount":                 {"refund_fee": "2.00"},
		"only a time":                    {"gmt_refund": "2026-03-01 17:00:00"},
		"only a number":                  {"out_biz_no": "R5"},
		"an amount that cannot be read":  {"refund_fee": "?"},
		"paid, closed, and nothing else": {"trade_status": "TRADE_CLOSED"},
	} {
		body := notice(change)
		e := readOne(t, account, body)
		require.Equal(t, channel.RefundHint, e.Kind, name)
		require.Zero(t, e.Amount, name)
		require.Zero(t, e.PayerAmount, name)
		require.Empty(t, e.Currency, name)
		require.Equal(t, tradeNo, e.TransactionID, name)
		require.Equal(t, "order-1", e.OutTradeNo, name)
		require.Equal(t, change["out_biz_no"], e.OutNo, name)
		require.Equal(t, e.Key("alipay", body), readOne(t, account, body).Key("alipay", body), name)
		require.NotContains(t, keys, e.Key("alipay", body), name)
		keys[e.Key("alipay", body)] = name
	}
	e := readOne(t, account, notice(map[string]string{"out_biz_no": "R1", "refund_fee": "1.00", "gmt_refund": "2026-03-01 17:00:00.123"}))
	require.Equal(t, tradeNo+":2:R1", e.Subject)
	require.Equal(t, time.Date(2026, 3, 1, 9, 0, 0, 123e6, time.UTC), e.OccurredAt)
}

func TestARefundOfNothingIsNone(t *testing.T) {
	t.Parallel()
	for _, nothing := range []string{"0.00", "0", ""} {
		require.Equal(t, channel.PaySuccess, readOne(t, open(t), notice(map[string]string{"refund_fee": nothing, "gmt_refund": "", "out_biz_no": ""})).Kind, nothing)
	}
}

func TestAnOrderThatWasNotPaidInTime(t *testing.T) {
	t.Parallel()
	e := readOne(t, open(t), notice(map[string]string{
		"trade_status": "TRADE_CLOSED", "gmt_payment": "-", "buyer_pay_amount": "-", "gmt_close": "2026-03-01 18:00:00",
	}))
	require.Equal(t, channel.Event{
		Kind: channel.PayClosed, Subject: tradeNo, TransactionID: tradeNo, OutTradeNo: "order-1", Amount: 9900, Currency: "CNY",
		OccurredAt: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
	}, e)
}

func TestAnOrderThatWaitsAndOtherMessagesAskForNothing(t *testing.T) {
	t.Parallel()
	account := open(t)
	for _, change := range []map[string]string{
		{"trade_status": "WAIT_BUYER_PAY"},
		{"notify_type": "dut_user_sign"},
		{"msg_method": "alipay.trade.order.settle.notify"},
	} {
		body := notice(change)
		e := readOne(t, account, body)
		require.Equal(t, channel.Unsupported, e.Kind)
		require.NotEmpty(t, e.Note)
		require.Equal(t, channel.RawKey(body), e.Key("alipay", body))
	}
}

func TestAnotherContextIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		account channel.Account
		change  map[string]string
		says    string
	}{
		"another app":             {open(t), map[string]string{"app_id": "2021000000000002"}, "another app"},
		"no app":                  {open(t), map[string]string{"app_id": "-"}, "another app"},
		"another seller":          {open(t), map[string]string{"seller_id": "2088000000000002"}, "another seller"},
		"another seller by login": {open(t), map[string]string{"seller_id": "-", "seller_email": "other@example.com"}, "another seller"},
		"a refund of another":     {open(t), map[string]string{"seller_id": "2088000000000002", "refund_fee": "1.00"}, "another seller"},
		"right":                   {open(t), map[string]string{"seller_email": "seller@example.com"}, ""},
		"no seller named":         {open(t), map[string]string{"seller_id": "-"}, ""},
		"another login":           {open(t), map[string]string{"seller_email": "new-login@example.com"}, ""},
	} {
		e := readOne(t, c.account, notice(c.change))
		if c.says == "" {
			require.Empty(t, e.Mismatch, name)
			continue
		}
		require.Contains(t, e.Mismatch, c.says, name)
	}
}

func TestAnotherCurrencyIsSaidAndNotTakenForYuan(t *testing.T) {
	t.Parallel()
	e := readOne(t, open(t), notice(map[string]string{"trans_currency": "USD"}))
	require.Equal(t, "USD", e.Currency)
	require.EqualValues(t, 9900, e.Amount)
}

func TestVeryLongNumbersStayTellable(t *testing.T) {
	t.Parallel()
	account := open(t)
	long := "R1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
	a := readOne(t, account, notice(map[string]string{"out_biz_no": long + "a", "refund_fee": "1"}))
	b := readOne(t, account, notice(map[string]string{"out_biz_no": long + "b", "refund_fee": "1"}))
	require.NotEqual(t, a.Subject, b.Subject)
	require.Equal(t, long+"a", a.OutNo)
}
