package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func requireAck(t *testing.T, got reply) {
	t.Helper()
	require.Equal(t, http.StatusOK, got.StatusCode, got.Text)
	require.Equal(t, "{}", got.Text)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
}

func TestTheSameCallbackThreeTimesIsThreeAcksAndOneCredit(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	for range 3 {
		requireAck(t, f.send(t, f.callback(t, body)))
	}
	require.Len(t, f.driver.Take(), 1)
	require.Equal(t, 2, f.stored(t), "one receipt and one event")
	f.RequireInvariants(t)
}

func TestThreeAtOnceAreThreeAcksAndOneCredit(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	var group errgroup.Group
	for range 20 {
		r := f.callback(t, body)
		group.Go(func() error {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err == nil && (response.StatusCode != 200 || string(text) != "{}") {
				return fmt.Errorf("%d %s", response.StatusCode, text)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
	require.Equal(t, 9900, f.Balance(t, "merchant"))
	f.RequireInvariants(t)
}

func TestATimeWithinTheWindowIsTaken(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	for _, ago := range []time.Duration{295 * time.Second, 0, -299 * time.Second} {
		requireAck(t, f.send(t, f.signed(t, f.Secret, time.Now().Add(-ago), body)))
	}
}

func TestTheContentTypeAndTheCaseOfHeadersDoNotMatter(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "nonsense;;"} {
		requireAck(t, f.send(t, f.edited(t, body, func(h http.Header) { h["Content-Type"] = []string{contentType} })))
	}
	for _, change := range []func(string) string{strings.ToLower, strings.ToUpper} {
		c := f.dial(t)
		h := http.Header{}
		for name, values := range sign(t, f.Secret, time.Now(), body) {
			h[change(name)] = values
		}
		c.head(t, f.callbackPath(), h)
		fmt.Fprintf(c, "Content-Length: %d\r\n\r\n%s", len(body), body)
		requireAck(t, c.response(t, f.callbackPath()))
	}
}

func TestAChunkedBodyIsTaken(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	r := f.callback(t, body)
	r.ContentLength = -1
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:10]), strings.NewReader(body[10:])))
	requireAck(t, f.send(t, r))
	f.requireReceipt(t, body)
}

func TestAChannelThatHangsUpHasStillToldUs(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	c := f.dial(t)
	c.head(t, f.callbackPath(), sign(t, f.Secret, time.Now(), body))
	fmt.Fprintf(c, "Content-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return f.stored(t) == 2 }, 10*time.Second, 10*time.Millisecond)
}

func TestAChannelThatHungUpBeforeItsAccountWasFoundHasToldUsToo(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	r := f.callback(t, string(testhouse.Paid(t, "tx", "o", 9900)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f.handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(gone))
	require.Equal(t, 2, f.stored(t))
	f.requireNoError(t)
}

// requireReceipt holds that exactly this body is kept, byte for byte.
func (f *face) requireReceipt(t *testing.T, body string) {
	t.Helper()
	var kept []byte
	require.NoError(t, f.Owner.QueryRow(t.Context(), "SELECT body FROM channel_receipts").Scan(&kept))
	require.Equal(t, []byte(body), kept)
}

func TestTheSignatureIsOverTheBytesAsTheyCame(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"key order":      `{"type":"payment.succeeded","data":{"out_trade_no":"o","transaction_id":"tx","currency":"CNY","amount":9900},"timestamp":"2026-03-01T08:00:00Z","a":1}`,
		"escapes":        `{"type":"payment.succeeded","data":{"transaction_id":"t\u0078","out_trade_no":"o","amount":9900,"currency":"CNY","note":"\u003c\/\u4e2d中<&>\u2028"}}`,
		"white space":    " \r\n\t{ \"type\" :\t\"payment.succeeded\" ,\n\"data\":{\"transaction_id\":\"tx\",\"out_trade_no\":\"o\",\"amount\":9900 ,\"currency\":\"CNY\"} } \n",
		"big integers":   `{"type":"payment.succeeded","data":{"transaction_id":"tx","out_trade_no":"o","amount":9900,"currency":"CNY"},"nonce":123456789012345678901234567890,"rate":1.10e0}`,
		"lower-case CNY": `{"type":"payment.succeeded","data":{"transaction_id":"tx","out_trade_no":"o","amount":9900,"currency":"cny"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.order(t, "o")
			requireAck(t, f.send(t, f.callback(t, body)))
			f.requireReceipt(t, body)
			require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
		})
	}
}

func TestAnAuthenticBodyThatCannotBeUsedIsStoredParkedAndAcknowledged(t *testing.T) {
	t.Parallel()
	message := func(transactionID, outTradeNo string) string {
		return string(testhouse.Paid(t, transactionID, outTradeNo, 9900))
	}
	data := func(fields string) string { return `{"type":"payment.succeeded","data":{` + fields + `}}` }
	for name, c := range map[string]struct{ body, state, outcome string }{
		"empty":                      {"", "PARKED", "UNREADABLE"},
		"not JSON":                   {"amount=1&sign=2", "PARKED", "UNREADABLE"},
		"binary":                     {"\x00\xff\xfe", "PARKED", "UNREADABLE"},
		"null":                       {"null", "PARKED", "UNREADABLE"},
		"a list":                     {"[1,2]", "PARKED", "UNREADABLE"},
		"deep":                       {strings.Repeat("[", 50_000), "PARKED", "UNREADABLE"},
		"two values":                 {message("tx", "o") + "{}", "PARKED", "UNREADABLE"},
		"amount twice":               {data(`"transaction_id":"tx","out_trade_no":"o","amount":9900,"amount":1,"currency":"CNY"`), "PARKED", "UNREADABLE"},
		"no data":                    {`{"type":"payment.succeeded"}`, "PARKED", "UNREADABLE"},
		"a fraction":                 {data(`"transaction_id":"tx","out_trade_no":"o","amount":99.5,"currency":"CNY"`), "PARKED", "UNREADABLE"},
		"transaction_id of 129":      {message(strings.Repeat("7", 129), "o"), "PARKED", "UNREADABLE"},
		"out_trade_no of 129":        {message("tx", strings.Repeat("o", 129)), "PARKED", "UNREADABLE"},
		"NUL in transaction_id":      {message("t\x00x", "o"), "PARKED", "UNREADABLE"},
		"NUL in out_trade_no":        {message("tx", "\x00"), "PARKED", "UNREADABLE"},
		"currency with NUL":          {data(`"transaction_id":"tx","out_trade_no":"o","amount":1,"currency":"CN\u0000"`), "PARKED", "UNREADABLE"},
		"an order that we lack":      {message("tx", "elsewhere"), "PARKED", "UNKNOWN_ORDER"},
		"an order of 128":            {message("tx", strings.Repeat("o", 128)), "PARKED", "UNKNOWN_ORDER"},
		"an order not of our form":   {message("tx", "订单/1 "), "PARKED", "UNKNOWN_ORDER"},
		"a refund that we lack":      {`{"type":"refund.succeeded","data":{"refund_id":"r","amount":1,"currency":"CNY"}}`, "PARKED", "UNKNOWN_REFUND"},
		"an unknown type":            {`{"type":"customer.created","data":{}}`, "IGNORED", "UNSUPPORTED_TYPE"},
		"an unknown type with NUL":   {`{"type":"a\u0000b\u202e","data":null}`, "IGNORED", "UNSUPPORTED_TYPE"},
		"an unknown type, very long": {`{"type":"` + strings.Repeat("类", 5000) + `"}`, "IGNORED", "UNSUPPORTED_TYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			for range 2 {
				requireAck(t, f.send(t, f.callback(t, c.body)))
			}
			f.requireReceipt(t, c.body)
			event := f.onlyEvent(t)
			require.Equal(t, c.state, event["state"])
			require.Equal(t, c.outcome, event["outcome"])
			require.NotEmpty(t, event["reason"])
			require.Empty(t, f.driver.Take())
			f.requireNoError(t)
		})
	}
}

// onlyEvent is the one event of the house, as the API shows it.
func (f *face) onlyEvent(t *testing.T) object {
	t.Helper()
	items := f.call(t, "GET", "/v1/events", "").is(t, 200).fields(t)["items"].([]any)
	require.Len(t, items, 1)
	return items[0].(object)
}

func (f *face) replaceSecrets(t *testing.T, secrets ...string) {
	t.Helper()
	config, err := json.Marshal(standard.Config{Secrets: secrets})
	require.NoError(t, err)
	require.NoError(t, f.Accounts.Replace(t.Context(), f.Tenant, standard.Name, f.Account.Name, config))
}

func TestARotatedSecretCountsAtOnceAndTheOldOneNoMore(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	before, after := f.Secret, testhouse.NewSecret()
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	try := func(secret string) reply { return f.send(t, f.signed(t, secret, time.Now(), body)) }

	requireAck(t, try(before))
	try(after).problem(t, 401, "signature_invalid")
	f.replaceSecrets(t, after, before) // both are live while one is rotated
	requireAck(t, try(before))
	requireAck(t, try(after))
	f.replaceSecrets(t, after)
	requireAck(t, try(after))
	try(before).problem(t, 401, "signature_invalid")
	require.Equal(t, 2, f.stored(t), "all of them were the same message")
}

func TestOneOfSeveralSignaturesInOneHeaderIsEnough(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	other := sign(t, testhouse.NewSecret(), time.Now(), body).Get("webhook-signature")
	requireAck(t, f.send(t, f.edited(t, body, func(h http.Header) {
		h.Set("webhook-signature", other+" v2,abc "+h.Get("webhook-signature"))
	})))
}
