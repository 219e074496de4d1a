package stripe_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/channel/simulator/stripe"
)

type reply struct {
	status int
	header http.Header
	body   string
}

// caller speaks to a simulator by hand.
func caller(t *testing.T, s *stripe.Simulator) func(method, path, idempotencyKey string, form url.Values) reply {
	t.Helper()
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Core().Close)
	var config struct {
		SecretKey string `json:"secret_key"`
	}
	require.NoError(t, json.Unmarshal(s.Config(server.URL), &config))
	return func(method, path, idempotencyKey string, form url.Values) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		req.SetBasicAuth(config.SecretKey, "")
		if idempotencyKey != "" {
			req.Header.Set("Idempotency-Key", idempotencyKey)
		}
		response, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return reply{response.StatusCode, response.Header, string(body)}
	}
}

func intent(amount string) url.Values {
	return url.Values{"amount": {amount}, "currency": {"usd"}, "metadata[out_trade_no]": {"order-1"}}
}

func TestAKeyKeepsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := stripe.New()
	call := caller(t, s)
	first := call("POST", "/v1/payment_intents", "key-1", intent("100"))
	require.Equal(t, 200, first.status)
	require.Empty(t, first.header.Get("Idempotent-Replayed"))
	again := call("POST", "/v1/payment_intents", "key-1", intent("100"))
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))

	for _, other := range []reply{call("POST", "/v1/payment_intents", "key-1", intent("101")), call("POST", "/v1/checkout/sessions", "key-1", intent("100"))} {
		require.Equal(t, 400, other.status)
		require.Contains(t, other.body, "idempotency_error")
	}
	require.Len(t, s.Orders(), 1)
	require.NotEqual(t, first.body, call("POST", "/v1/payment_intents", "", intent("100")).body, "without a key each call is its own")
	s.ForgetKeys()
	require.NotEqual(t, first.body, call("POST", "/v1/payment_intents", "key-1", intent("100")).body)
	require.Len(t, s.Orders(), 3)
}

func TestAKeyKeepsAFailureButNotACallThatNeverBegan(t *testing.T) {
	t.Parallel()
	s := stripe.New()
	call := caller(t, s)
	s.Quirk(stripe.Quirks{FailKept: 1})
	for range 2 {
		require.Equal(t, 500, call("POST", "/v1/payment_intents", "key-1", intent("100")).status)
	}
	require.Empty(t, s.Orders())
	s.Quirk(stripe.Quirks{Busy: 1})
	require.Equal(t, 409, call("POST", "/v1/payment_intents", "key-2", intent("100")).status)
	s.Quirk(stripe.Quirks{Throttle: 1})
	require.Equal(t, 429, call("POST", "/v1/payment_intents", "key-2", intent("100")).status)
	s.Core().Misbehave(simulator.Faults{Refuse: 1})
	require.Equal(t, 500, call("POST", "/v1/payment_intents", "key-2", intent("100")).status)
	require.Equal(t, 200, call("POST", "/v1/payment_intents", "key-2", intent("100")).status)
}

func TestWhatStripeWouldRefuse(t *testing.T) {
	t.Parallel()
	s := stripe.New()
	call := caller(t, s)
	in := func(amount, currency string) url.Values {
		return url.Values{"amount": {amount}, "currency": {currency}}
	}
	for name, c := range map[string]struct {
		path   string
		form   url.Values
		status int
		text   string
	}{
		"no amount":               {"/v1/payment_intents", url.Values{"currency": {"usd"}}, 400, "parameter_invalid_integer"},
		"a capital currency":      {"/v1/payment_intents", in("100", "USD"), 400, "Invalid currency"},
		"fractions of a króna":    {"/v1/payment_intents", in("150", "isk"), 400, "invalid_charge_amount_no_decimal_compatible"},
		"three decimals":          {"/v1/payment_intents", in("5124", "kwd"), 400, "must end in 0"},
		"a session without lines": {"/v1/checkout/sessions", url.Values{"mode": {"payment"}}, 400, "parameter_missing"},
		"a refund of nothing":     {"/v1/refunds", url.Values{"payment_intent": {"pi_1"}}, 404, "resource_missing"},
		"a transfer to nobody":    {"/v1/transfers", url.Values{"amount": {"1"}, "currency": {"usd"}, "destination": {"anna"}}, 404, "resource_missing"},
		"a call of no API":        {"/v1/charges", nil, 404, "Unrecognized request URL"},
		"an expansion of nothing": {"/v1/payment_intents", url.Values{"amount": {"1"}, "currency": {"usd"}, "expand[]": {"shop"}}, 400, "cannot be expanded"},
		"a key of 256 characters": {"/v1/payment_intents", in("100", "usd"), 400, "255"},
	} {
		key := ""
		if strings.Contains(name, "256") {
			key = strings.Repeat("k", 256)
		}
		got := call("POST", c.path, key, c.form)
		require.Equal(t, c.status, got.status, name)
		require.Contains(t, got.body, c.text, name)
		require.Contains(t, got.body, `"error"`, name)
	}
	require.Equal(t, 400, call("GET", "/v1/refunds?limit=101", "", nil).status)
	require.Equal(t, 404, call("GET", "/v1/refunds?starting_after=re_1", "", nil).status)
	require.Error(t, s.Pay("nobody's"))
	require.Error(t, s.SettleRefund("nobody's", "SUCCEEDED"))
	require.Error(t, s.SettleShare("nobody's"))
}
