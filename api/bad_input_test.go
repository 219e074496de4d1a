package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/testhouse"
)

// with gives a valid order with one field changed; an empty value leaves the field out.
func with(field, value string) string {
	fields := []string{}
	for _, f := range [][2]string{{"out_trade_no", `"bad"`}, {"amount", "9900"}, {"currency", `"CNY"`}} {
		if f[0] != field {
			fields = append(fields, `"`+f[0]+`":`+f[1])
		}
	}
	if value != "" {
		fields = append(fields, `"`+field+`":`+value)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

func TestABadOrderIsRefusedWithACodeAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.AddAccount(t, f.Tenant, "second-"+f.Tenant, testhouse.NewSecret())
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", "", 415, "content_type_unsupported"},
		{"white space", " \n", 400, "json_malformed"},
		{"half an object", `{"out_trade_no":"bad"`, 400, "json_malformed"},
		{"two values", with("", "") + with("", ""), 400, "json_malformed"},
		{"a key twice", `{"out_trade_no":"bad","amount":1,"amount":9900,"currency":"CNY"}`, 400, "json_malformed"},
		{"a key twice in another case", `{"out_trade_no":"bad","amount":1,"AMOUNT":9900,"currency":"CNY"}`, 400, "json_malformed"},
		{"a key twice in metadata", with("metadata", `{"a":1,"a":2}`), 400, "json_malformed"},
		{"deep without end", strings.Repeat("[", 500_000), 400, "json_malformed"},
		{"2 MiB", with("description", `"`+strings.Repeat("x", 2<<20)+`"`), 413, "body_too_large"},
		{"invalid UTF-8", with("description", "\"\xff\""), 400, "json_malformed"},
		{"half of a surrogate pair", with("description", `"\ud800"`), 400, "json_malformed"},
		{"a byte order mark", "\ufeff" + with("", ""), 400, "json_malformed"},
		{"a list", "[" + with("", "") + "]", 400, "json_malformed"},
		{"a string", `"order"`, 400, "json_malformed"},
		{"a number", "1", 400, "json_malformed"},
		{"null", "null", 400, "json_malformed"},
		{"an unknown field", with("amuont", "1"), 400, "field_unknown"},
		{"a state", with("state", `"PAID"`), 400, "field_unknown"},

		{"amount missing", with("amount", ""), 400, "amount_invalid"},
		{"amount null", with("amount", "null"), 400, "amount_invalid"},
		{"amount 0", with("amount", "0"), 400, "amount_invalid"},
		{"amount -0", with("amount", "-0"), 400, "amount_invalid"},
		{"amount negative", with("amount", "-1"), 400, "amount_invalid"},
		{"amount 1.5", with("amount", "1.5"), 400, "amount_invalid"},
		{"amount 1.0", with("amount", "1.0"), 400, "amount_invalid"},
		{"amount 1e2", with("amount", "1e2"), 400, "amount_invalid"},
		{"amount a string", with("amount", `"100"`), 400, "amount_invalid"},
		{"amount true", with("amount", "true"), 400, "amount_invalid"},
		{"amount too large", with("amount", "9223372036854775808"), 400, "amount_invalid"},
		{"amount without end", with("amount", strings.Repeat("9", 1000)), 400, "amount_invalid"},
		{"amount with a leading zero", with("amount", "0100"), 400, "json_malformed"},
		{"amount NaN", with("amount", "NaN"), 400, "json_malformed"},

		{"currency missing", with("currency", ""), 400, "currency_unknown"},
		{"currency null", with("currency", "null"), 400, "currency_unknown"},
		{"currency empty", with("currency", `""`), 400, "currency_unknown"},
		{"currency in lower case", with("currency", `"cny"`), 400, "currency_unknown"},
		{"currency unknown", with("currency", `"ZZZ"`), 400, "currency_unknown"},
		{"currency with a space", with("currency", `"CNY "`), 400, "currency_unknown"},
		{"currency a number", with("currency", "156"), 400, "currency_invalid"},

		{"number missing", with("out_trade_no", ""), 400, "out_trade_no_invalid"},
		{"number empty", with("out_trade_no", `""`), 400, "out_trade_no_invalid"},
		{"number of 65", with("out_trade_no", `"`+strings.Repeat("o", 65)+`"`), 400, "out_trade_no_invalid"},
		{"number of 300", with("out_trade_no", `"`+strings.Repeat("o", 300)+`"`), 400, "out_trade_no_invalid"},
		{"number with a slash", with("out_trade_no", `"a/b"`), 400, "out_trade_no_invalid"},
		{"number with a space", with("out_trade_no", `"a b"`), 400, "out_trade_no_invalid"},
		{"number with a line feed", with("out_trade_no", `"a\n"`), 400, "out_trade_no_invalid"},
		{"number with NUL", with("out_trade_no", `"a\u0000"`), 400, "out_trade_no_invalid"},
		{"number not ASCII", with("out_trade_no", `"订单"`), 400, "out_trade_no_invalid"},
		{"number a number", with("out_trade_no", "5"), 400, "out_trade_no_invalid"},

		{"description of 257", with("description", `"`+strings.Repeat("书", 257)+`"`), 400, "description_invalid"},
		{"description with NUL", with("description", `"\u0000"`), 400, "description_invalid"},
		{"description an object", with("description", "{}"), 400, "description_invalid"},
		{"method of 33", with("method", `"`+strings.Repeat("m", 33)+`"`), 400, "method_invalid"},

		{"metadata a list", with("metadata", "[]"), 400, "metadata_invalid"},
		{"metadata a string", with("metadata", `"a"`), 400, "metadata_invalid"},
		{"metadata a number", with("metadata", "1"), 400, "metadata_invalid"},
		{"metadata too large", with("metadata", `{"a":"`+strings.Repeat("x", 16<<10)+`"}`), 400, "metadata_invalid"},
		{"metadata too deep", with("metadata", nested(32)), 400, "json_malformed"},

		{"expires at once", with("expires_in_seconds", "0"), 400, "expires_in_seconds_invalid"},
		{"expires before", with("expires_in_seconds", "-1"), 400, "expires_in_seconds_invalid"},
		{"expires in years", with("expires_in_seconds", "31622401"), 400, "expires_in_seconds_invalid"},
		{"expires never", with("expires_in_seconds", "9223372036854775807"), 400, "expires_in_seconds_invalid"},
		{"expires beyond 64 bits", with("expires_in_seconds", "9223372036854775808"), 400, "expires_in_seconds_invalid"},
		{"expires in a fraction", with("expires_in_seconds", "1.5"), 400, "expires_in_seconds_invalid"},

		{"an unknown channel", with("channel", `"nochannel"`), 404, "channel_account_not_found"},
		{"an account without its channel", with("account", `"a"`), 400, "channel_invalid"},
		{"an unknown account", with("channel", `"standard","account":"nobody"`), 404, "channel_account_not_found"},
		{"several accounts and none named", with("channel", `"standard"`), 400, "channel_account_ambiguous"},
		{"channel with NUL", with("channel", `"\u0000"`), 400, "channel_invalid"},
		{"account of 65", with("channel", `"standard","account":"`+strings.Repeat("a", 65)+`"`), 400, "account_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.call(t, "POST", "/v1/payments", c.body).problem(t, c.status, c.code)
		})
	}
	require.Zero(t, f.Count(t, "SELECT count(*) FROM payments"))
	f.requireNoError(t)
}

func TestABodyMustSayThatItIsJSON(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	for _, path := range []string{"/v1/payments", "/v1/payments/o/close"} {
		for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/", ";"} {
			r := f.request(t, "POST", path, orderBody("p"))
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("Authorization", "Bearer "+f.APIKey)
			f.send(t, r).problem(t, 415, "content_type_unsupported")
		}
	}
	r := f.request(t, "POST", "/v1/payments", orderBody("p"))
	r.Header.Set("Content-Type", "Application/JSON; charset=utf-8")
	r.Header.Set("Authorization", "Bearer "+f.APIKey)
	f.send(t, r).is(t, 201)
}

func TestAMoveTakesNothingOrAnEmptyObject(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	for _, move := range []string{"close", "ship", "complete"} {
		path := "/v1/payments/o/" + move
		for body, code := range map[string]string{
			`{"force":true}`: "field_unknown", "[]": "json_malformed", "null": "json_malformed", `"x"`: "json_malformed",
			"0": "json_malformed", "{": "json_malformed", "{}{}": "json_malformed", " ": "json_malformed",
		} {
			f.call(t, "POST", path, body).problem(t, 400, code)
		}
		f.call(t, "POST", path, strings.Repeat(" ", 2<<20)).problem(t, 413, "body_too_large")
	}
	require.Equal(t, "PENDING", string(f.State(t, "o")))
	f.call(t, "POST", "/v1/payments/o/close", " {} ").is(t, 200)
	f.requireNoError(t)
}

func TestTheNameOfAnUnknownFieldIsNotGivenBackWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	got := f.call(t, "POST", "/v1/payments", `{"`+strings.Repeat("x", 1<<19)+`":1}`)
	got.problem(t, 400, "field_unknown")
	require.Less(t, len(got.Text), 1000)
}

func TestABadQueryIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, c := range []struct{ path, code string }{
		{"/v1/payments?limit=0", "limit_invalid"},
		{"/v1/payments?limit=201", "limit_invalid"},
		{"/v1/payments?limit=-1", "limit_invalid"},
		{"/v1/payments?limit=ten", "limit_invalid"},
		{"/v1/payments?limit=1.0", "limit_invalid"},
		{"/v1/payments?limit=99999999999999999999", "limit_invalid"},
		{"/v1/events?limit=0", "limit_invalid"},
		{"/v1/accounts/merchant/entries?limit=201", "limit_invalid"},
		{"/v1/payments?cursor=%3F", "cursor_invalid"},
		{"/v1/payments?cursor=%00", "cursor_invalid"},
		{"/v1/payments?cursor=5", "cursor_invalid"},
		{"/v1/payments?cursor=MA", "cursor_invalid"},                          // 0
		{"/v1/payments?cursor=LTE", "cursor_invalid"},                         // -1
		{"/v1/payments?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk", "cursor_invalid"}, // more than 64 bits
		{"/v1/events?cursor=abc", "cursor_invalid"},
		{"/v1/accounts/merchant/entries?cursor=abc", "cursor_invalid"},
		{"/v1/payments?state=paid", "state_invalid"},
		{"/v1/payments?state=DONE", "state_invalid"},
		{"/v1/events?state=PAID", "state_invalid"},
		{"/v1/events?state=%00", "state_invalid"},
		{"/v1/payments?from=yesterday", "from_invalid"},
		{"/v1/payments?from=2026-03-01", "from_invalid"},
		{"/v1/payments?to=2026-02-30T00:00:00Z", "to_invalid"},
		{"/v1/payments?to=1770000000", "to_invalid"},
		{"/v1/payments?channel=%00", "channel_invalid"},
		{"/v1/payments?channel=%FF", "channel_invalid"},
		{"/v1/events?out_trade_no=%00", "out_trade_no_invalid"},
		{"/v1/events?out_trade_no=%FF", "out_trade_no_invalid"},
		{"/v1/accounts/merchant?currency=cny", "currency_unknown"},
		{"/v1/accounts/merchant?currency=ZZZ", "currency_unknown"},
		{"/v1/accounts/merchant/entries?currency=%00", "currency_unknown"},
	} {
		t.Run(c.path, func(t *testing.T) {
			f.call(t, "GET", c.path, "").problem(t, 400, c.code)
		})
	}
	for _, path := range []string{
		"/v1/payments?limit=200", "/v1/payments?limit=1", "/v1/payments?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z",
		"/v1/payments?from=9999-12-31T23:59:59-23:59&to=0000-01-01T00:00:00%2B23:59", "/v1/payments?channel=nochannel",
	} {
		require.Empty(t, f.call(t, "GET", path, "").items(t, "out_trade_no"))
	}
	f.requireNoError(t)
}

func TestAPathThatNamesNothingIs404(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	codes := map[string]string{
		"/v1/payments": "payment_not_found", "/v1/events": "event_not_found", "/v1/accounts": "account_not_found",
		"/v1/transfers": "transfer_not_found", "/v1/stock": "sku_not_found", "/v1/shares": "share_not_found", "/v1/api_keys": "api_key_not_found",
		"/v1/refunds": "refund_not_found",
	}
	values := map[string][]string{
		"out_trade_no":  {"none", "%00", "a%00b", "%FF", "%E8%AE%A2", "a%20b", strings.Repeat("o", 65), strings.Repeat("o", 5000), "'", "%25"},
		"out_refund_no": {"none", "%00", "a%00b", "%FF", "a%20b", strings.Repeat("o", 65), "'"},
		"out_order_no":  {"none", "%00", "a%00b", "%FF", "%E8%AE%A2", "a%20b", strings.Repeat("o", 65), strings.Repeat("o", 5000), "'", "%25"},
		"id":            {"0", "-1", "abc", "1.0", "1e3", "99999999999999999999", "9223372036854775807", "%00", "%FF", "0x1", "1_0"},
		"code":          {"none", "%00", "%FF", "MERCHANT", strings.Repeat("a", 200), "%E8%AE%A2", "-"},
		"sku":           {"none", "%00", "a%00b", "%FF", "%E8%AE%A2", "a%20b", strings.Repeat("o", 65), strings.Repeat("o", 5000), "'"},
	}
	for _, o := range operations() {
		name := strings.Trim(parameterPattern.FindString(o.Path), "{}")
		if !strings.HasPrefix(o.Path, "/v1/") || name == "" || o.Method == http.MethodPut {
			continue // a put makes what is not there
		}
		code := codes[o.Path[:strings.Index(o.Path, "/{")]]
		require.NotEmpty(t, code, "%s is a route that this test does not know", o.Path)
		require.NotEmpty(t, values[name], "%s has a parameter that this test does not know", o.Path)
		for _, value := range values[name] {
			t.Run(o.Method+" "+o.Path+" "+fmt.Sprintf("%.20s", value), func(t *testing.T) {
				f.call(t, o.Method, strings.Replace(o.Path, "{"+name+"}", value, 1), exampleBody(t, o)).problem(t, 404, code)
			})
		}
	}
	f.requireNoError(t)
}

// exampleBody is the example of an operation's request; empty where it has none.
func exampleBody(t *testing.T, o operation) string {
	t.Helper()
	content := at(o.node, "requestBody", "content", "application/json")
	if content == nil {
		require.Equal(t, http.MethodGet, o.Method, o.Path)
		return ""
	}
	return marshal(t, content.(object)["example"])
}
