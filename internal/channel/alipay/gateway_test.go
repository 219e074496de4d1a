package alipay_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

// aCall is one kind of call, made where it can succeed.
type aCall struct {
	kind string
	make func(ctx context.Context, w *world, tradeNo string) error
	done func(t *testing.T, w *world) // what must be so, once, however often it was called
}

var (
	aRefund = func(tradeNo string) channel.Refund { return refundOf(tradeNo, "R1", 2500) }
	aReturn = func(tradeNo string) channel.ShareReturn {
		return channel.ShareReturn{OutReturnNo: "B1", OutOrderNo: "S0", TransactionID: tradeNo, OutTradeNo: "order-1", Account: alice, Amount: 300, Currency: "CNY"}
	}
)

func nothing(*testing.T, *world) {}

var allCalls = []aCall{
	{"prepay", func(ctx context.Context, w *world, _ string) error {
		_, err := w.Prepay(ctx, w.order("order-2", 100))
		return err
	}, func(t *testing.T, w *world) { require.Len(t, w.Orders(), 2) }},
	{"query", func(ctx context.Context, w *world, _ string) error {
		_, err := w.Query(ctx, w.order("order-1", 10000))
		return err
	}, nothing},
	{"close", func(ctx context.Context, w *world, _ string) error { return w.Close(ctx, w.order("order-3", 100)) }, nothing},
	{"refund", func(ctx context.Context, w *world, tradeNo string) error {
		_, err := w.Refund(ctx, aRefund(tradeNo))
		return err
	}, func(t *testing.T, w *world) { require.EqualValues(t, 2500, w.refunded("order-1")) }},
	{"query_refund", func(ctx context.Context, w *world, tradeNo string) error {
		_, err := w.QueryRefund(ctx, aRefund(tradeNo))
		return err
	}, nothing},
	{"share", func(ctx context.Context, w *world, tradeNo string) error {
		_, err := w.Share(ctx, shareTo(tradeNo, "S1", to(alice, 1000)))
		return err
	}, func(t *testing.T, w *world) {
		// What is left of the payment after the refund of 2500 and the shares of 500 and 1000, to the last fen.
		o := w.Orders()[0]
		_, err := w.Share(t.Context(), shareTo(o.TransactionID, "S8", to(alice, 6001)))
		requireRejection(t, err, "ACQ.ALLOC_AMOUNT_VALIDATE_ERROR")
		_, err = w.Share(t.Context(), shareTo(o.TransactionID, "S9", to(alice, 6000)))
		require.NoError(t, err)
	}},
	{"query_share", func(ctx context.Context, w *world, tradeNo string) error {
		_, err := w.QueryShare(ctx, shareTo(tradeNo, "S0", to(alice, 500)))
		return err
	}, nothing},
	{"finish_share", func(ctx context.Context, w *world, tradeNo string) error {
		_, err := w.FinishShare(ctx, shareTo(tradeNo, "F1"))
		return err
	}, nothing},
	{"return_share", func(ctx context.Context, w *world, tradeNo string) error {
		_, err := w.ReturnShare(ctx, aReturn(tradeNo))
		return err
	}, nothing},
	{"query_return", func(ctx context.Context, w *world, tradeNo string) error {
		r := aReturn(tradeNo)
		r.OutReturnNo = "B0"
		_, err := w.QueryReturn(ctx, r)
		return err
	}, nothing},
	{"bill", func(ctx context.Context, w *world, _ string) error {
		file, err := w.Bill(ctx, yesterday())
		if err == nil {
			err = file.Close()
		}
		return err
	}, nothing},
}

func yesterday() channel.Date {
	y := time.Now().In(shanghai).AddDate(0, 0, -1)
	return channel.Date{Year: y.Year(), Month: y.Month(), Day: y.Day()}
}

// prepared is a world where each of these calls can succeed.
func prepared(t *testing.T) (*world, string) {
	t.Helper()
	w := newWorld(t, func(s *sim.Simulator) {
		s.Clock(func() time.Time { return time.Now().AddDate(0, 0, -1) })
		s.Quirk(sim.Quirks{Bound: []string{alice, bob}})
	})
	tradeNo := w.paid(t, "order-1", 10000)
	w.Clock(time.Now)
	_, err := w.Share(t.Context(), shareTo(tradeNo, "S0", to(alice, 500)))
	require.NoError(t, err)
	r := aReturn(tradeNo)
	r.OutReturnNo = "B0"
	_, err = w.ReturnShare(t.Context(), r)
	require.NoError(t, err)
	w.told()
	return w, tradeNo
}

func TestNoFailureOnTheWayIsADefiniteOne(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]simulator.Faults{
		"the gateway fails":                        {Refuse: 1},
		"the connection breaks after the work":     {Drop: 1},
		"the reply's signature does not hold":      {Garble: 1},
		"the reply comes after the caller's limit": {Delay: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, tradeNo := prepared(t)
			for _, call := range allCalls {
				w.Core().Misbehave(only(call.kind, faults))
				limit := time.Minute
				if faults.Delay > 0 {
					limit = 50 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				err := call.make(ctx, w, tradeNo)
				cancel()
				requireUnknown(t, err)
				if faults.Garble > 0 {
					require.ErrorIs(t, err, channel.ErrUnproven, call.kind)
				}
				require.NotContains(t, err.Error(), "sign=")
				require.NotContains(t, err.Error(), "biz_content")

				// Called again under the same numbers, all is well and nothing is done twice.
				w.Core().Misbehave(simulator.Faults{})
				require.NoError(t, call.make(t.Context(), w, tradeNo), call.kind)
				call.done(t, w)
			}
		})
	}
}

func only(kind string, f simulator.Faults) simulator.Faults {
	f.Only = kind
	return f
}

func TestAReplyThatAlipayDidNotSignDecidesNothing(t *testing.T) {
	t.Parallel()
	refusal := failing("40004", "ACQ.TRADE_HAS_CLOSE")
	signature := strings.TrimSuffix(signedReply("x", refusal)[strings.Index(signedReply("x", refusal), `,"sign"`):], "}")
	for name, body := range map[string]string{
		"no signature":                  `{"alipay_trade_refund_response":` + refusal + `}`,
		"an empty one":                  `{"alipay_trade_refund_response":` + refusal + `,"sign":""}`,
		"one that is none":              `{"alipay_trade_refund_response":` + refusal + `,"sign":"AAAA"}`,
		"one that is no text":           `{"alipay_trade_refund_response":` + refusal + `,"sign":{}}`,
		"an unsigned error":             `{"error_response":` + failing("40002", "isv.invalid-app-id") + `}`,
		"a blank more than was signed":  `{"alipay_trade_refund_response": ` + strings.Replace(refusal, ",", ", ", 1) + signature + `}`,
		"two answers, the second false": `{"alipay_trade_refund_response":` + refusal + `,"alipay_trade_refund_response":{"code":"10000"}` + signature + `}`,
		"no answer":                     `{"sign":"AAAA"}`,
		"an answer that is no object":   `{"alipay_trade_refund_response":"10000","sign":"AAAA"}`,
		"another method's":              signedReply("alipay_trade_close_response", `{"code":"10000"}`),
		"not JSON":                      `<html>maintenance</html>`,
		"nothing":                       "",
		"two values":                    signedReply("alipay_trade_refund_response", refusal) + "{}",
		"too long":                      signedReply("alipay_trade_refund_response", `{"code":"40002","msg":"`+strings.Repeat("x", 1<<20)+`"}`),
	} {
		gateway := serveReply(t, body)
		account := open(t, func(c *alipay.Config) { c.BaseURL = gateway }).(channel.Acquirer)
		_, err := account.Refund(t.Context(), aRefund("1"))
		t.Log(name, err)
		requireUnknown(t, err)
		if name != "too long" {
			require.ErrorIs(t, err, channel.ErrUnproven)
		}
	}
}

func TestWhatTheGatewaySaysOfACall(t *testing.T) {
	t.Parallel()
	for answer, definite := range map[string]bool{
		failing("20000", "isp.unknow-error"):                     false,
		failing("20000", "aop.unknow-error"):                     false,
		failing("40004", "ACQ.SYSTEM_ERROR"):                     false,
		failing("40004", "ACQ.TRADE_SETTLE_ERROR"):               false,
		failing("40004", "ACQ.REFUND_CHARGE_ERROR"):              false,
		failing("40004", "ACQ.DISCORDANT_REPEAT_REQUEST"):        false,
		failing("40004", "ACQ.A_CODE_OF_TOMORROW"):               false,
		failing("40004", ""):                                     false,
		failing("40005", "isv.app-call-limited"):                 false,
		failing("10003", ""):                                     false,
		failing("", ""):                                          false,
		failing("40004", "ACQ.SELLER_BALANCE_NOT_ENOUGH"):        true,
		failing("40004", "ACQ.TRADE_NOT_EXIST"):                  true,
		failing("40002", "isv.invalid-signature"):                true,
		failing("40001", "isv.missing-app-id"):                   true,
		failing("40006", "isv.insufficient-isv-permissions"):     true,
		failing("20001", "aop.invalid-app-auth-token"):           true,
		`{"code":40006,"msg":"Insufficient","sub_code":"isv.x"}`: true, // a number where a text is usual
	} {
		account := scripted(t, map[string]string{"alipay.trade.refund": answer, "alipay.trade.fastpay.refund.query": `{"code":"10000","msg":"Success"}`})
		_, err := account.Refund(t.Context(), aRefund("1"))
		require.Error(t, err, answer)
		require.Equal(t, definite, channel.Definite(err), "%s: %v", answer, err)
	}
}

func TestASignedErrorOfTheGatewayItselfIsBelieved(t *testing.T) {
	t.Parallel()
	gateway := serveReply(t, signedReply("error_response", failing("40002", "isv.invalid-method")))
	account := open(t, func(c *alipay.Config) { c.BaseURL = gateway }).(channel.Acquirer)
	_, err := account.Prepay(t.Context(), channel.Order{OutTradeNo: "order-1", Amount: 1, Currency: "CNY"})
	requireRejection(t, err, "isv.invalid-method")
}

func TestOfAnAnnouncementOnlyAlipaysOwnFailuresAreUnknown(t *testing.T) {
	t.Parallel()
	for answer, definite := range map[string]bool{
		failing("40004", "ACQ.TRADE_HAS_CLOSE"):                     true,
		failing("40004", "ACQ.A_CODE_OF_TOMORROW"):                  true,
		failing("40004", "ACQ.SYSTEM_ERROR"):                        false,
		failing("20000", "isp.unknow-error"):                        false,
		`{"code":"10000","msg":"Success","out_trade_no":"order-1"}`: false,
	} {
		account := scripted(t, map[string]string{"alipay.trade.precreate": answer})
		_, err := account.Prepay(t.Context(), channel.Order{OutTradeNo: "order-1", Amount: 1, Currency: "CNY"})
		require.Error(t, err, answer)
		require.Equal(t, definite, channel.Definite(err), answer)
	}
}

func TestAnotherStatusThan200IsNoAnswerThoughItIsSigned(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusAccepted, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway} {
		gateway := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, signedReply("alipay_trade_refund_response", failing("40002", "isv.invalid-signature")))
		})
		account := open(t, func(c *alipay.Config) { c.BaseURL = gateway }).(channel.Acquirer)
		_, err := account.Refund(t.Context(), aRefund("1"))
		requireUnknown(t, err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		gateway := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		account := open(t, func(c *alipay.Config) { c.BaseURL = gateway }).(channel.Acquirer)
		_, err := account.Query(t.Context(), channel.Order{OutTradeNo: "order-1"})
		requireUnknown(t, err)
		_, err = account.Bill(t.Context(), yesterday())
		requireUnknown(t, err)
	}
	require.Zero(t, hits.Load())
}

func TestHowACallIsWritten(t *testing.T) {
	t.Parallel()
	var query, body url.Values
	var contentType string
	gateway := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		query, contentType = r.URL.Query(), r.Header.Get("Content-Type")
		text, _ := io.ReadAll(r.Body)
		body, _ = url.ParseQuery(string(text))
	})
	for _, signType := range []string{"RSA2", "RSA"} {
		account := open(t, func(c *alipay.Config) { c.BaseURL, c.SignType = gateway, signType })
		alipay.SetClock(account, func() time.Time { return time.Date(2026, 2, 28, 16, 30, 5, 999, time.UTC) })
		_, err := account.(channel.Acquirer).Query(t.Context(), channel.Order{OutTradeNo: "order-1"})
		requireUnknown(t, err)
		require.Equal(t, "application/x-www-form-urlencoded;charset=utf-8", contentType)
		require.Equal(t, url.Values{"biz_content": {`{"out_trade_no":"order-1"}`}}, body)
		require.NotEmpty(t, query.Get("sign"))
		query.Del("sign")
		require.Equal(t, url.Values{
			"app_id": {appID}, "method": {"alipay.trade.query"}, "format": {"JSON"}, "charset": {"utf-8"}, "sign_type": {signType}, "version": {"1.0"},
			"timestamp": {"2026-03-01 00:30:05"},
		}, query)
	}
}

func TestAnAppOfTheOldAlgorithmWorksBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.SignType("RSA") })
	tradeNo := w.paid(t, "order-1", 10000)
	_, err := w.Refund(t.Context(), aRefund(tradeNo))
	require.NoError(t, err)
	told := w.told()
	require.Len(t, told, 2)
	require.ElementsMatch(t, []channel.Kind{channel.PaySuccess, channel.RefundHint}, []channel.Kind{told[0].Kind, told[1].Kind})
	require.Empty(t, w.codes())
}
