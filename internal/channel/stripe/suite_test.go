package stripe_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/channeltest"
	"github.com/paylatch/paylatch/internal/channel/stripe"
)

// The keys of these tests, in the shapes of real ones.
var (
	secretKey = "sk_test_51" + strings.Repeat("A", 15) + strings.Repeat("b", 82)
	secretA   = "whsec_" + strings.Repeat("a", 32)
	secretB   = "whsec_" + strings.Repeat("b", 32)
	secretC   = "whsec_" + strings.Repeat("c", 32)
)

const accountID = "acct_1AAAAAAAAAAAAAAA"

// settings gives a configuration; changes replace or, where nil, remove a field.
func settings(changes map[string]any) []byte {
	fields := map[string]any{"secret_key": secretKey, "webhook_secrets": []string{secretA, secretB}, "livemode": false}
	for name, value := range changes {
		fields[name] = value
		if value == nil {
			delete(fields, name)
		}
	}
	config, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return config
}

func open(t testing.TB, changes map[string]any) channel.Account {
	t.Helper()
	account, err := stripe.Channel{}.Open("main", settings(changes))
	require.NoError(t, err)
	return account
}

// v1 signs by the documentation's words, without the package's help.
func v1(secret string, body []byte, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

func signed(secret string, body []byte, at time.Time) http.Header {
	return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,%s", at.Unix(), v1(secret, body, at))}}
}

// succeeded is a payment_intent.succeeded; fields replace those of the PaymentIntent.
func succeeded(fields map[string]any) []byte {
	return webhook("payment_intent.succeeded", intent(fields))
}

func intent(fields map[string]any) map[string]any {
	object := map[string]any{
		"id": "pi_1", "object": "payment_intent", "amount": 1000, "amount_received": 1000, "currency": "usd", "status": "succeeded",
		"created": 1_700_000_000, "livemode": false, "metadata": map[string]any{"out_trade_no": "order-1"}, "latest_charge": "ch_1",
		"client_secret": "pi_1_secret_1",
	}
	for name, value := range fields {
		object[name] = value
	}
	return object
}

func webhook(kind string, object map[string]any, changes ...map[string]any) []byte {
	event := map[string]any{
		"id": "evt_1", "object": "event", "api_version": stripe.APIVersion, "created": 1_700_000_100, "livemode": false, "type": kind,
		"data": map[string]any{"object": object},
	}
	for _, change := range changes {
		for name, value := range change {
			event[name] = value
		}
	}
	return encode(event)
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}

func TestSuite(t *testing.T) {
	t.Parallel()
	secrets := []string{secretA, secretB}
	channeltest.Run(t, channeltest.Harness{
		Channel:   stripe.Channel{},
		Config:    settings(nil),
		ValidKeys: 2,
		RefusedConfigs: map[string][]byte{
			"nothing":                nil,
			"not JSON":               []byte("secret_key"),
			"a typing slip":          settings(map[string]any{"webhook_secret": secretA}),
			"no key":                 settings(map[string]any{"secret_key": nil}),
			"a publishable key":      settings(map[string]any{"secret_key": "pk_test_51" + strings.Repeat("A", 97)}),
			"only a prefix of a key": settings(map[string]any{"secret_key": "sk_test_"}),
			"a key with white space": settings(map[string]any{"secret_key": secretKey + "\n"}),
			"no secrets":             settings(map[string]any{"webhook_secrets": []string{}}),
			"absent secrets":         settings(map[string]any{"webhook_secrets": nil}),
			"an empty secret":        settings(map[string]any{"webhook_secrets": []string{""}}),
			"one empty secret":       settings(map[string]any{"webhook_secrets": []string{secretA, ""}}),
			"only a prefix":          settings(map[string]any{"webhook_secrets": []string{"whsec_"}}),
			"a short secret":         settings(map[string]any{"webhook_secrets": []string{"whsec_123456789012345"}}),
			"another kind of secret": settings(map[string]any{"webhook_secrets": []string{strings.Repeat("a", 40)}}),
			"a secret with a space":  settings(map[string]any{"webhook_secrets": []string{secretA + " "}}),
			"no mode":                settings(map[string]any{"livemode": nil}),
			"another mode":           settings(map[string]any{"livemode": true}),
			"mode null":              []byte(strings.Replace(string(settings(nil)), "false", "null", 1)),
			"a live key in test":     settings(map[string]any{"secret_key": strings.Replace(secretKey, "test", "live", 1)}),
			"an open way":            settings(map[string]any{"base_url": "http://api.stripe.com"}),
			"no address":             settings(map[string]any{"base_url": "api.stripe.com"}),
			"no account id":          settings(map[string]any{"account_id": "main"}),
			"another account":        settings(map[string]any{"account_id": "acct_1BBBBBBBBBBBBBBB"}),
		},
		Sign: func(_ *testing.T, key int, body []byte, at time.Time) http.Header {
			return signed(secrets[key], body, at)
		},
		SignWrong: func(_ *testing.T, body []byte, at time.Time) http.Header {
			return signed(secretC, body, at)
		},
		SignatureHeaders: []string{"Stripe-Signature"},
		Success: func(_ *testing.T, p channeltest.Payment) []byte {
			return succeeded(map[string]any{
				"id": p.TransactionID, "amount": p.Amount, "amount_received": p.Amount, "currency": strings.ToLower(p.Currency),
				"metadata": map[string]any{"out_trade_no": p.OutTradeNo},
			})
		},
		SharedAccount: true,
		UnknownType:   webhook("customer.created", map[string]any{"object": "customer", "id": "cus_1"}),
		Unusable: map[string][]byte{
			"no type":               webhook("", intent(nil)),
			"no mode":               webhook("payment_intent.succeeded", intent(nil), map[string]any{"livemode": nil}),
			"no object":             webhook("payment_intent.succeeded", nil),
			"another object":        webhook("payment_intent.succeeded", map[string]any{"object": "charge", "id": "ch_1"}),
			"no status":             succeeded(map[string]any{"status": ""}),
			"an unknown status":     succeeded(map[string]any{"status": "finished"}),
			"a status that belies":  succeeded(map[string]any{"status": "requires_action"}),
			"nothing received":      succeeded(map[string]any{"amount_received": 0}),
			"amount a string":       succeeded(map[string]any{"amount_received": "1000"}),
			"amount a fraction":     succeeded(map[string]any{"amount_received": 10.5}),
			"amount 1.0":            []byte(strings.Replace(string(succeeded(nil)), `"amount_received":1000`, `"amount_received":1000.0`, 1)),
			"amount too large":      []byte(strings.Replace(string(succeeded(nil)), `"amount_received":1000`, `"amount_received":9223372036854775808`, 1)),
			"amount twice":          []byte(strings.Replace(string(succeeded(nil)), `"amount_received":1000`, `"amount_received":1000,"amount_received":1`, 1)),
			"fractions of ISK":      succeeded(map[string]any{"amount_received": 550, "currency": "isk"}),
			"MGA beyond 64 bits":    succeeded(map[string]any{"amount_received": 922337203685477580, "currency": "mga"}),
			"an unknown currency":   succeeded(map[string]any{"currency": "xyz"}),
			"currency too long":     succeeded(map[string]any{"currency": "usdx"}),
			"metadata a list":       succeeded(map[string]any{"metadata": []string{"order-1"}}),
			"metadata a number":     succeeded(map[string]any{"metadata": map[string]any{"out_trade_no": 1}}),
			"id a number":           succeeded(map[string]any{"id": 1}),
			"charge a number":       succeeded(map[string]any{"latest_charge": 1}),
			"time out of range":     webhook("payment_intent.succeeded", intent(nil), map[string]any{"created": 1 << 60}),
			"surrogate half":        []byte(strings.Replace(string(succeeded(nil)), "order-1", `\ud800`, 1)),
			"refund, no id":         webhook("refund.updated", map[string]any{"object": "refund", "status": "succeeded", "amount": 1, "currency": "usd"}),
			"refund, no status":     webhook("refund.updated", map[string]any{"object": "refund", "id": "re_1", "amount": 1, "currency": "usd"}),
			"refund, status null":   webhook("refund.updated", map[string]any{"object": "refund", "id": "re_1", "amount": 1, "currency": "usd", "status": nil}),
			"hint of no charge":     webhook("charge.refunded", map[string]any{"object": "charge"}),
			"session of no total":   webhook("checkout.session.completed", map[string]any{"object": "checkout.session", "id": "cs_1", "payment_status": "paid", "payment_intent": "pi_1", "currency": "usd"}),
			"session of no status":  webhook("checkout.session.completed", map[string]any{"object": "checkout.session", "id": "cs_1", "payment_intent": "pi_1", "currency": "usd", "amount_total": 1}),
			"transfer of no amount": webhook("transfer.created", map[string]any{"object": "transfer", "id": "tr_1", "currency": "usd"}),
			"an empty list":         []byte(`{"object":"list","data":[]}`),
			"a list of rubbish":     []byte(`{"object":"list","data":[1]}`),
			"no object of Stripe's": []byte(`{"id":"pi_1","status":"succeeded"}`),
			"an error object":       []byte(`{"error":{"type":"api_error"}}`),
		},
		AcceptedStatus: http.StatusOK,
		AcceptedBody:   "{}",
	})
}
