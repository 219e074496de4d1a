package wechatpay_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
)

var (
	someOrder  = channel.Order{OutTradeNo: "order-1", Amount: 100, Currency: "CNY", NotifyURL: "https://pay.example/callbacks/wechatpay/main"}
	someRefund = channel.Refund{OutRefundNo: "refund-1", TransactionID: "4200000001", Amount: 1, Total: 100, Currency: "CNY"}
	someShare  = channel.Share{OutOrderNo: "share-1", TransactionID: "4200000001", Currency: "CNY", Receivers: []channel.ShareReceiver{{Account: "1900000110", Amount: 1}}}
	someReturn = channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", Account: "1900000110", Amount: 1, Currency: "CNY"}
)

// changing are the calls that change something at the channel.
var changing = []string{"prepay", "refund", "share", "finish_share", "return_share"}

func said(code string) string { return fmt.Sprintf(`{"code":%q,"message":"原因"}`, code) }

func absentBody(r *http.Request) (int, string) {
	if r.URL.Path == "/v3/pay/transactions/out-trade-no/order-1" {
		return http.StatusNotFound, said("ORDER_NOT_EXIST")
	}
	return http.StatusNotFound, said("RESOURCE_NOT_EXISTS")
}

func TestADefiniteCodeIsARejectionOnceTheNumberIsKnownToBeFree(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		"PARAM_ERROR": 400, "INVALID_REQUEST": 400, "APPID_MCHID_NOT_MATCH": 400, "MCH_NOT_EXISTS": 404, "NO_AUTH": 403, "OUT_TRADE_NO_USED": 403,
		"ORDER_CLOSED": 400, "TRADE_ERROR": 403, "NOT_ENOUGH": 403, "USER_ACCOUNT_ABNORMAL": 403, "OPENID_MISMATCH": 500,
	} {
		a := stub(t, "public", func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet {
				return absentBody(r)
			}
			return status, said(code)
		})
		calls := everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn)
		for _, kind := range changing {
			requireRejected(t, calls[kind](), code)
		}
	}
}

func TestAnyOtherCodeLeavesItOpen(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		"SYSTEM_ERROR": 500, "SYSTEMERROR": 500, "BANK_ERROR": 500, "BANKERROR": 500, "FREQUENCY_LIMITED": 429, "RATELIMIT_EXCEEDED": 429, "RULE_LIMIT": 403, "RULELIMIT": 403,
		"USERPAYING": 202, "USER_PAYING": 202, "PROCESSING": 202, "SIGN_ERROR": 401, "REQUEST_BLOCKED": 403, "RESOURCE_NOT_EXISTS": 404, "INVALID_REQUEST": 503, "NOT_ENOUGH": 202, "NEVER_SEEN": 400, "": 400,
	} {
		a := stub(t, "public", func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet {
				return absentBody(r)
			}
			return status, said(code)
		})
		calls := everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn)
		for _, kind := range changing {
			err := calls[kind]()
			require.Error(t, err, kind+" "+code)
			require.False(t, channel.Definite(err), kind+" "+code)
		}
	}
}

func TestAQueryThatIsRefusedSaysNothingOfItsMatter(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"PARAM_ERROR", "INVALID_REQUEST", "NO_AUTH", "MCH_NOT_EXISTS"} {
		a := stub(t, "public", func(*http.Request) (int, string) { return http.StatusBadRequest, said(code) })
		calls := everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn)
		for _, kind := range []string{"query", "close", "query_refund", "query_share", "query_return"} {
			err := calls[kind]()
			require.Error(t, err, kind)
			require.False(t, channel.Definite(err), kind)
		}
	}
}

func TestWhatIsNotSignedIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"unsigned": "", "by another key": "wrong", "a probe": "probe"} {
		for _, status := range []int{200, 400, 404, 502} {
			a := stub(t, key, func(r *http.Request) (int, string) {
				if status == http.StatusNotFound {
					return absentBody(r)
				}
				return status, said("INVALID_REQUEST")
			})
			for kind, call := range everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn) {
				err := call()
				require.ErrorIs(t, err, channel.ErrUnproven, "%s %d %s", name, status, kind)
				require.False(t, channel.Definite(err))
				require.NotErrorIs(t, err, channel.ErrPaid)
			}
		}
	}
}

func TestAReplySignedForOtherBytesOrLongAgoIsUnproven(t *testing.T) {
	t.Parallel()
	sim := simulated.New()
	t.Cleanup(sim.Core().Close)
	body := []byte(`{"trade_state":"SUCCESS","mchid":"1900000001","out_trade_no":"order-1"}`)
	for name, header := range map[string]http.Header{
		"other bytes": sim.Sign("public", []byte(`{"trade_state":"NOTPAY","mchid":"1900000001","out_trade_no":"order-1"}`), time.Now()),
		"long ago":    sim.Sign("public", body, time.Now().Add(-301*time.Second)),
		"yet to come": sim.Sign("public", body, time.Now().Add(302*time.Second)),
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range header {
				w.Header()[name] = values
			}
			_, _ = w.Write(body)
		}))
		t.Cleanup(api.Close)
		_, err := openSimulated(t, sim, api.URL, nil).(channel.Acquirer).Query(t.Context(), someOrder)
		require.ErrorIs(t, err, channel.ErrUnproven, name)
	}
}

func TestASignedRequestGoesNowhereElse(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		api := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		t.Cleanup(api.Close)
		sim := simulated.New()
		t.Cleanup(sim.Core().Close)
		a := openSimulated(t, sim, api.URL, nil).(channel.Acquirer)
		for kind, call := range everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn) {
			require.ErrorIs(t, call(), channel.ErrUnproven, kind)
		}
	}
	require.Zero(t, hits.Load())
}

func TestAnAnswerAboutSomethingElseIsNone(t *testing.T) {
	t.Parallel()
	a := stub(t, "public", func(r *http.Request) (int, string) {
		return http.StatusOK, `{"trade_state":"SUCCESS","mchid":"1900000001","out_trade_no":"order-9","transaction_id":"4200000009",
			"refund_id":"5","out_refund_no":"refund-9","status":"SUCCESS","order_id":"3","out_order_no":"share-9","out_return_no":"return-9","result":"SUCCESS"}`
	})
	calls := everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn)
	for _, kind := range []string{"query", "refund", "query_refund", "share", "query_share", "finish_share", "return_share", "query_return"} {
		require.ErrorIs(t, calls[kind](), channel.ErrUnproven, kind)
	}
	// Another merchant's order under our number.
	a = stub(t, "public", func(*http.Request) (int, string) {
		return http.StatusOK, `{"trade_state":"SUCCESS","mchid":"1900000999","out_trade_no":"order-1"}`
	})
	_, err := a.Query(t.Context(), someOrder)
	require.ErrorIs(t, err, channel.ErrUnproven)
}

func TestAStateThatNobodyKnowsIsNoState(t *testing.T) {
	t.Parallel()
	a := stub(t, "public", func(*http.Request) (int, string) {
		return http.StatusOK, `{"trade_state":"MAYBE","mchid":"1900000001","out_trade_no":"order-1","transaction_id":"4200000001",
			"refund_id":"5","out_refund_no":"refund-1","status":"MAYBE","order_id":"3","out_order_no":"share-1","receivers":[{"account":"a","result":"MAYBE"}],
			"out_return_no":"return-1","result":"MAYBE"}`
	})
	for kind, call := range everyCall(t.Context(), a, someOrder, someRefund, someShare, someReturn) {
		if kind == "close" {
			continue // an answer of 200 closes
		}
		err := call()
		require.Error(t, err, kind)
		require.False(t, channel.Definite(err), kind)
	}
	for _, body := range []string{"", "[]", "{", `{"trade_state":"SUCCESS","trade_state":"NOTPAY"}`, `{"amount":{"total":"1"}}`} {
		a := stub(t, "public", func(*http.Request) (int, string) { return http.StatusOK, body })
		_, err := a.Query(t.Context(), someOrder)
		require.Error(t, err, body)
	}
}

func TestTheStatesOfAnOrder(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]channel.OrderState{
		"SUCCESS": channel.OrderPaid, "REFUND": channel.OrderPaid, "NOTPAY": channel.OrderOpen, "USERPAYING": channel.OrderOpen, "ACCEPT": channel.OrderOpen,
		"PAYERROR": channel.OrderOpen, "CLOSED": channel.OrderClosed, "REVOKED": channel.OrderClosed,
	} {
		a := stub(t, "new", func(*http.Request) (int, string) {
			return http.StatusOK, fmt.Sprintf(`{"trade_state":%q,"mchid":"1900000001","out_trade_no":"order-1"}`, state)
		})
		standing, err := a.Query(t.Context(), someOrder)
		require.NoError(t, err)
		require.Equal(t, want, standing.State, state)
	}
}

func TestAClosingThatIsRefusedIsLookedAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refusal, state string
		check          func(require.TestingT, error, ...any)
	}{
		{"INVALID_REQUEST", "SUCCESS", func(t require.TestingT, err error, _ ...any) { require.ErrorIs(t, err, channel.ErrPaid) }},
		{"TRADE_ERROR", "CLOSED", require.NoError},
		{"INVALID_REQUEST", "USERPAYING", require.Error},
		{"ORDERPAID", "NOTPAY", func(t require.TestingT, err error, _ ...any) { require.ErrorIs(t, err, channel.ErrPaid) }},
		{"ORDERCLOSED", "NOTPAY", require.NoError},
	} {
		a := stub(t, "public", func(r *http.Request) (int, string) {
			if r.Method == http.MethodPost {
				return http.StatusBadRequest, said(c.refusal)
			}
			return http.StatusOK, fmt.Sprintf(`{"trade_state":%q,"mchid":"1900000001","out_trade_no":"order-1"}`, c.state)
		})
		err := a.Close(t.Context(), someOrder)
		c.check(t, err, c.refusal+" "+c.state)
		require.False(t, channel.Definite(err))
	}
}

func TestAnAnnouncementThatIsRefusedBecauseItIsPaidIsPaid(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"OUT_TRADE_NO_USED", "INVALID_REQUEST"} {
		a := stub(t, "public", func(r *http.Request) (int, string) {
			if r.Method == http.MethodPost {
				return http.StatusForbidden, said(code)
			}
			return http.StatusOK, `{"trade_state":"SUCCESS","mchid":"1900000001","out_trade_no":"order-1"}`
		})
		_, err := a.Prepay(t.Context(), someOrder)
		require.ErrorIs(t, err, channel.ErrPaid)
		require.False(t, channel.Definite(err))
	}
}

func TestRequestsNameTheKeyThatAnswersShallBeSignedWith(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	serve := func(change func(map[string]any)) channel.Acquirer {
		sim := simulated.New()
		t.Cleanup(sim.Core().Close)
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Store(r.Header.Get("Wechatpay-Serial"))
			sim.Handler().ServeHTTP(w, r)
		}))
		t.Cleanup(api.Close)
		return openSimulated(t, sim, api.URL, change).(channel.Acquirer)
	}
	_, err := serve(nil).Query(t.Context(), someOrder)
	require.NoError(t, err)
	require.Contains(t, asked.Load(), "PUB_KEY_ID_")
	_, err = serve(func(config map[string]any) { delete(config, "public_keys") }).Query(t.Context(), someOrder)
	require.NoError(t, err)
	require.Empty(t, asked.Load())
}

func unavailable(*http.Request) (int, string) {
	return http.StatusServiceUnavailable, "<html>503 Service Temporarily Unavailable</html>"
}
