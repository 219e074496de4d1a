package alipay_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

func TestAnOrderByCodeFromTheAnnouncementToTheMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Quirk(sim.Quirks{Coupon: 150}) })
	o := w.order("order-1", 9900)
	prepaid, err := w.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, prepaid.Reference)
	code := dataOf(t, prepaid, "qr_code")
	require.True(t, strings.HasPrefix(code, "https://qr.alipay.com/"))

	// A code that nobody has scanned is no trade yet.
	standing, err := w.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.Standing{State: channel.OrderUnknown}, standing)
	require.NoError(t, w.Scan("order-1"))
	standing, err = w.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.Standing{State: channel.OrderOpen}, standing)

	require.NoError(t, w.Pay("order-1"))
	standing, err = w.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderPaid, standing.State)

	// The callback and the answer tell one fact: one event, to the last field.
	asked := readOne(t, w.account, standing.Body)
	require.Equal(t, []channel.Event{asked}, w.told())
	require.Equal(t, channel.PaySuccess, asked.Kind)
	require.EqualValues(t, 9900, asked.Amount)
	require.EqualValues(t, 9750, asked.PayerAmount)
	require.False(t, asked.OccurredAt.IsZero())

	// And once more when it cannot be refunded any longer.
	require.NoError(t, w.Finish("order-1"))
	require.Equal(t, []channel.Event{asked, asked}, w.told())
	standing, err = w.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, asked, readOne(t, w.account, standing.Body))
}

func TestAPageIsSignedHereAndAnnouncedByThePayer(t *testing.T) {
	t.Parallel()
	for method, product := range map[string]string{"page": "FAST_INSTANT_TRADE_PAY", "wap": "QUICK_WAP_WAY"} {
		w := newWorld(t)
		o := w.order("order_1", 1)
		o.Method, o.ReturnURL, o.Shared, o.Description = method, "https://shop.example/back?order=1", true, "茶/a=b&c"
		o.ExpiresAt = time.Date(2026, 12, 31, 16, 30, 0, 0, time.UTC)
		prepaid, err := w.Prepay(t.Context(), o)
		require.NoError(t, err)
		require.Zero(t, w.counted(""), "no call is made")
		require.Empty(t, w.Orders())

		address := dataOf(t, prepaid, "pay_url")
		u, err := url.Parse(address)
		require.NoError(t, err)
		q := u.Query()
		require.Equal(t, "alipay.trade."+method+".pay", q.Get("method"))
		require.Equal(t, w.notifyURL, q.Get("notify_url"))
		require.Equal(t, o.ReturnURL, q.Get("return_url"))
		require.Equal(t, "utf-8", q.Get("charset"))
		var content map[string]any
		require.NoError(t, json.Unmarshal([]byte(q.Get("biz_content")), &content))
		require.Equal(t, "0.01", content["total_amount"])
		require.Equal(t, product, content["product_code"])
		require.Equal(t, "茶 a b c", content["subject"])
		require.Equal(t, "2027-01-01 00:30:00", content["time_expire"], "of Shanghai's clock")
		require.Equal(t, map[string]any{"royalty_freeze": "true"}, content["extend_params"])

		// The payer's browser opens it: its signature holds, and the order is there.
		response, err := http.Get(address)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.NoError(t, w.Pay("order_1"))
		require.Equal(t, channel.PaySuccess, w.told()[0].Kind)

		// With another amount it is not what was signed.
		response, err = http.Get(strings.Replace(address, "0.01", "0.02", 1))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
	}
}

func TestAnnouncedAgainAnOrderIsTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.Prepay(t.Context(), w.order("order-1", 9900))
	require.NoError(t, err)
	again, err := w.Prepay(t.Context(), w.order("order-1", 9900))
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, w.Orders(), 1)

	_, err = w.Prepay(t.Context(), w.order("order-1", 9901))
	requireRejection(t, err, "ACQ.CONTEXT_INCONSISTENT")
	require.NoError(t, w.Pay("order-1"))
	_, err = w.Prepay(t.Context(), w.order("order-1", 9900))
	require.ErrorIs(t, err, channel.ErrPaid)
	require.False(t, channel.Definite(err), "a paid order is not one that was never announced")
}

func TestWhatAlipayCannotTakeIsSaidBeforeItIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change := func(f func(*channel.Order)) channel.Order {
		o := w.order("order-1", 9900)
		f(&o)
		return o
	}
	for name, o := range map[string]channel.Order{
		"another currency":    change(func(o *channel.Order) { o.Currency = "USD" }),
		"no such method":      change(func(o *channel.Order) { o.Method = "jsapi" }),
		"a number with a bar": change(func(o *channel.Order) { o.OutTradeNo = "order|1" }),
		"a long number":       change(func(o *channel.Order) { o.OutTradeNo = strings.Repeat("1", 65) }),
		"nothing":             change(func(o *channel.Order) { o.Amount = 0 }),
		"too much":            change(func(o *channel.Order) { o.Amount = 100_000_000_01 }),
	} {
		_, err := w.Prepay(t.Context(), o)
		require.True(t, channel.Definite(err), name)
	}
	_, err := w.Prepay(t.Context(), change(func(o *channel.Order) { o.Currency = "USD" }))
	require.ErrorIs(t, err, channel.ErrUnsupported)

	// What was never announced is not there, and need not be closed.
	standing, err := w.Query(t.Context(), change(func(o *channel.Order) { o.OutTradeNo = "order|1" }))
	require.NoError(t, err)
	require.Equal(t, channel.OrderUnknown, standing.State)
	require.NoError(t, w.Close(t.Context(), change(func(o *channel.Order) { o.OutTradeNo = "order|1" })))
	require.Zero(t, w.counted(""))
}

func TestTheProductOfCodesIsTheOneThatWasSigned(t *testing.T) {
	t.Parallel()
	var content string
	gateway := serve(t, func(_ http.ResponseWriter, r *http.Request) { content = r.FormValue("biz_content") })
	account := open(t, func(c *alipay.Config) { c.BaseURL, c.QRProductCode = gateway, "QR_CODE_OFFLINE" })
	_, err := account.(channel.Acquirer).Prepay(t.Context(), channel.Order{OutTradeNo: "order-1", Amount: 1, Currency: "CNY", Description: "  "})
	requireUnknown(t, err)
	require.JSONEq(t, `{"out_trade_no":"order-1","total_amount":"0.01","subject":"order-1","product_code":"QR_CODE_OFFLINE","seller_id":"`+sellerID+`"}`, content)
}

func TestClosing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.Close(t.Context(), w.order("nobody-1", 1)), "what is not there is closed")

	_, err := w.Prepay(t.Context(), w.order("open-1", 1))
	require.NoError(t, err)
	require.NoError(t, w.Scan("open-1"))
	require.NoError(t, w.Close(t.Context(), w.order("open-1", 1)))
	require.NoError(t, w.Close(t.Context(), w.order("open-1", 1)), "closed is closed")
	standing, err := w.Query(t.Context(), w.order("open-1", 1))
	require.NoError(t, err)
	require.Equal(t, channel.OrderClosed, standing.State)
	told := w.told()
	require.Len(t, told, 1)
	require.Equal(t, channel.PayClosed, told[0].Kind)
	asked := readOne(t, w.account, standing.Body)
	asked.OccurredAt = told[0].OccurredAt // the answer does not tell when
	require.Equal(t, told[0], asked)

	w.paid(t, "paid-1", 1)
	require.ErrorIs(t, w.Close(t.Context(), w.order("paid-1", 1)), channel.ErrPaid)
	require.NoError(t, w.Finish("paid-1"))
	require.ErrorIs(t, w.Close(t.Context(), w.order("paid-1", 1)), channel.ErrPaid)
}

func TestAnOrderThatWasRefundedInFullIsClosedWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tradeNo := w.paid(t, "order-1", 100)
	_, err := w.Refund(t.Context(), channel.Refund{OutRefundNo: "R1", TransactionID: tradeNo, Amount: 100, Total: 100, Currency: "CNY"})
	require.NoError(t, err)
	standing, err := w.Query(t.Context(), w.order("order-1", 100))
	require.NoError(t, err)
	require.Equal(t, channel.OrderClosed, standing.State)
	e := readOne(t, w.account, standing.Body)
	require.Equal(t, channel.PayClosed, e.Kind)
	require.Contains(t, e.Note, "refunded in full")
	require.NoError(t, w.Close(t.Context(), w.order("order-1", 100)))
}

func TestAnAnswerAboutAnotherOrderIsNoAnswer(t *testing.T) {
	t.Parallel()
	account := scripted(t, map[string]string{
		"alipay.trade.query":                `{"code":"10000","msg":"Success","trade_no":"1","out_trade_no":"order-2","trade_status":"TRADE_SUCCESS","total_amount":"1.00"}`,
		"alipay.trade.precreate":            `{"code":"10000","msg":"Success","out_trade_no":"order-2","qr_code":"https://qr.alipay.com/x"}`,
		"alipay.trade.refund":               `{"code":"10000","msg":"Success","fund_change":"Y"}`,
		"alipay.trade.fastpay.refund.query": `{"code":"10000","msg":"Success","trade_no":"1","out_trade_no":"order-1","out_request_no":"R2","refund_status":"REFUND_SUCCESS","refund_amount":"1.00"}`,
		"alipay.trade.order.settle.query":   `{"code":"10000","msg":"Success","out_request_no":"S2","royalty_detail_list":[{"trans_in":"2088","state":"SUCCESS","amount":"1.00"}]}`,
	})
	_, err := account.Query(t.Context(), channel.Order{OutTradeNo: "order-1"})
	require.ErrorIs(t, err, channel.ErrUnproven)
	_, err = account.Prepay(t.Context(), channel.Order{OutTradeNo: "order-1", Amount: 1, Currency: "CNY"})
	requireUnknown(t, err)
	refund := channel.Refund{OutRefundNo: "R1", OutTradeNo: "order-1", Amount: 100, Currency: "CNY"}
	_, err = account.QueryRefund(t.Context(), refund)
	require.ErrorIs(t, err, channel.ErrUnproven)
	standing, err := account.Refund(t.Context(), refund)
	require.NoError(t, err)
	require.Equal(t, channel.RefundPending, standing.State, "taken, and what is proven is about another")
	_, err = account.QueryShare(t.Context(), channel.Share{OutOrderNo: "S1", TransactionID: "1"})
	require.ErrorIs(t, err, channel.ErrUnproven)
}

func TestAStatusThatIsNotKnownIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"", "TRADE_PENDING", "SUCCESS"} {
		account := scripted(t, map[string]string{
			"alipay.trade.query": `{"code":"10000","msg":"Success","trade_no":"1","out_trade_no":"order-1","trade_status":"` + status + `","total_amount":"1.00"}`,
		})
		_, err := account.Query(t.Context(), channel.Order{OutTradeNo: "order-1"})
		requireUnknown(t, err)
	}
}
