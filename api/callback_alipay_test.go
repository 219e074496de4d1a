package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

// faceOfAlipay is a face with an account at a simulated Alipay and an order that Alipay was told of.
func faceOfAlipay(t *testing.T, outTradeNo string) (*face, *simulated.Simulator, tenant.Account, channel.Order) {
	t.Helper()
	f, s := newFace(t), simulated.New()
	gateway := httptest.NewServer(s.Handler())
	t.Cleanup(gateway.Close)
	t.Cleanup(s.Core().Close)
	require.NoError(t, f.Accounts.Add(t.Context(), f.Tenant, alipay.Name, f.Tenant, s.Config(gateway.URL)))
	acct, err := f.Accounts.Find(t.Context(), alipay.Name, f.Tenant)
	require.NoError(t, err)
	f.order(t, outTradeNo)
	o := channel.Order{OutTradeNo: outTradeNo, Amount: 9900, Currency: "CNY", NotifyURL: f.URL + "/callbacks/alipay/" + f.Tenant}
	_, err = acct.Account.(channel.Acquirer).Prepay(t.Context(), o)
	require.NoError(t, err)
	return f, s, acct, o
}

func TestAlipayIsAnsweredInSevenBytesAndCreditedOnceHoweverOftenItTells(t *testing.T) {
	t.Parallel()
	f, s, acct, o := faceOfAlipay(t, "order-1")
	s.Core().Misbehave(simulator.Faults{NoticeTimes: 20})
	require.NoError(t, s.Pay("order-1"))
	s.Core().Wait()
	outcomes := f.driver.Book(t, f.Books)
	require.Equal(t, payment.Credited, outcomes[0])
	require.Equal(t, payment.Paid, f.State(t, "order-1"))
	require.Equal(t, 1, f.Journals(t))

	// Told once more when it is past refunding, and once more by the answer to a question: the same event.
	s.Core().Misbehave(simulator.Faults{})
	require.NoError(t, s.Finish("order-1"))
	s.Core().Wait()
	standing, err := acct.Account.(channel.Acquirer).Query(t.Context(), o)
	require.NoError(t, err)
	_, err = f.Entry.Report(t.Context(), acct, standing.Body, time.Now())
	require.NoError(t, err)
	f.driver.Book(t, f.Books)
	require.Equal(t, 1, f.Journals(t))
	require.Len(t, f.Events(t, "order-1"), 1)

	for _, sent := range s.Core().Sent() {
		require.Equal(t, http.StatusOK, sent.Status)
		require.Equal(t, "success", sent.Answer)
	}
	f.requireNoError(t)
	f.RequireInvariants(t)
}

func TestARefusedNoticeOfAlipaysIsAnsweredFailureAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f, s, _, o := faceOfAlipay(t, "order-1")
	s.Core().Misbehave(simulator.Faults{Withhold: true})
	require.NoError(t, s.Pay("order-1"))
	s.Core().Misbehave(simulator.Faults{})
	s.Core().Flush()
	genuine := string(s.Core().Sent()[0].Body)
	stored := f.stored(t)

	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"another amount":         {strings.Replace(genuine, "total_amount=99.00", "total_amount=99.01", 1), http.StatusUnauthorized},
		"a parameter twice":      {genuine + "&trade_status=TRADE_SUCCESS", http.StatusBadRequest},
		"a sign that is not one": {genuine[:strings.Index(genuine, "&sign=")] + "&sign=" + url.QueryEscape("***"), http.StatusBadRequest},
		"no sign":                {genuine[:strings.Index(genuine, "&sign=")], http.StatusBadRequest},
		"nothing":                {"", http.StatusBadRequest},
	} {
		response, err := http.Post(o.NotifyURL, "application/x-www-form-urlencoded", strings.NewReader(c.body))
		require.NoError(t, err)
		text := make([]byte, 64)
		n, _ := response.Body.Read(text)
		require.NoError(t, response.Body.Close())
		require.Equal(t, c.status, response.StatusCode, name)
		require.Equal(t, "failure", string(text[:n]), name)
	}
	require.Equal(t, stored, f.stored(t))

	// In another order it is the same message.
	parts := strings.Split(genuine, "&")
	slices.Reverse(parts)
	response, err := http.Post(o.NotifyURL, "text/html", strings.NewReader(strings.Join(parts, "&")))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	f.driver.Book(t, f.Books)
	require.Equal(t, payment.Paid, f.State(t, "order-1"))
	require.Equal(t, 1, f.Journals(t))
	f.requireNoError(t)
}
