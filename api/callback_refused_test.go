package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestACallbackThatIsNotAuthenticIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		code    string
	}{
		"tampered":                  {f.tampered(t, body), 401, "signature_invalid"},
		"white space added":         {f.withHeaders(t, body+" ", sign(t, f.Secret, time.Now(), body)), 401, "signature_invalid"},
		"stale":                     {f.signed(t, f.Secret, time.Now().Add(-301*time.Second), body), 401, "timestamp_stale"},
		"from the future":           {f.signed(t, f.Secret, time.Now().Add(310*time.Second), body), 401, "timestamp_future"},
		"wrong secret":              {f.signed(t, testhouse.NewSecret(), time.Now(), body), 401, "signature_invalid"},
		"two signature headers":     {f.edited(t, body, func(h http.Header) { h.Add("webhook-signature", h.Get("webhook-signature")) }), 400, "signature_ambiguous"},
		"two times":                 {f.edited(t, body, func(h http.Header) { h.Add("webhook-timestamp", "1") }), 400, "signature_ambiguous"},
		"two ids":                   {f.edited(t, body, func(h http.Header) { h.Add("Webhook-ID", "msg_1") }), 400, "signature_ambiguous"},
		"another id":                {f.edited(t, body, func(h http.Header) { h.Set("webhook-id", "msg_2") }), 401, "signature_invalid"},
		"another time":              {f.edited(t, body, func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprint(time.Now().Unix()+5)) }), 401, "signature_invalid"},
		"no id":                     {f.edited(t, body, func(h http.Header) { h.Del("webhook-id") }), 400, "signature_missing"},
		"no time":                   {f.edited(t, body, func(h http.Header) { h.Del("webhook-timestamp") }), 400, "signature_missing"},
		"no signature":              {f.edited(t, body, func(h http.Header) { h.Del("webhook-signature") }), 400, "signature_missing"},
		"no headers":                {f.withHeaders(t, body, http.Header{}), 400, "signature_missing"},
		"empty and unsigned":        {f.withHeaders(t, "", http.Header{}), 400, "signature_missing"},
		"empty signature":           {f.edited(t, body, func(h http.Header) { h.Set("webhook-signature", "") }), 400, "signature_missing"},
		"a probe's signature":       {f.edited(t, body, func(h http.Header) { h.Set("webhook-signature", "WECHATPAY/SIGNTEST/abc") }), 401, "signature_invalid"},
		"a time that is no number":  {f.edited(t, body, func(h http.Header) { h.Set("webhook-timestamp", "now") }), 400, "timestamp_malformed"},
		"a time without end":        {f.edited(t, body, func(h http.Header) { h.Set("webhook-timestamp", strings.Repeat("9", 40)) }), 400, "timestamp_malformed"},
		"the API key, no signature": {f.withHeaders(t, body, http.Header{"Authorization": {"Bearer " + f.APIKey}}), 400, "signature_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			f.send(t, c.request).problem(t, c.status, c.code)
			require.Zero(t, f.stored(t))
		})
	}
	require.Empty(t, f.driver.Take())
	// Nothing of the above keeps the genuine message of the same id from its credit.
	f.order(t, "o")
	f.pay(t, "tx", "o", 9900)
	f.requireNoError(t)
}

func (f *face) withHeaders(t *testing.T, body string, h http.Header) *http.Request {
	t.Helper()
	r := f.request(t, "POST", f.callbackPath(), body)
	r.Header = h
	return r
}

func (f *face) edited(t *testing.T, body string, edit func(http.Header)) *http.Request {
	t.Helper()
	r := f.callback(t, body)
	edit(r.Header)
	return r
}

func (f *face) tampered(t *testing.T, body string) *http.Request {
	t.Helper()
	return f.withHeaders(t, strings.Replace(body, "9900", "9901", 1), sign(t, f.Secret, time.Now(), body))
}

func TestASignatureOfOneAccountIsNoneOfAnother(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	another := f.AddAccount(t, f.Tenant, "another-"+f.Tenant, testhouse.NewSecret())
	body := string(testhouse.Paid(t, "tx", "o", 9900))
	r := f.request(t, "POST", "/callbacks/standard/"+another.Name, body)
	r.Header = sign(t, f.Secret, time.Now(), body)
	f.send(t, r).problem(t, 401, "signature_invalid")
	require.Zero(t, f.stored(t))
}

func TestACallbackBodyHasAtMostOneMiB(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	message := string(testhouse.Paid(t, "tx", "o", 9900))
	filled := func(size int) string { return message + strings.Repeat(" ", size-len(message)) }
	for _, size := range []int{1<<20 + 1, 2 << 20} {
		f.send(t, f.callback(t, filled(size))).problem(t, 413, "body_too_large")
		require.Zero(t, f.stored(t))
	}
	f.send(t, f.callback(t, filled(1<<20))).is(t, 200)
	require.Equal(t, 1<<20, f.Count(t, "SELECT length(body) FROM channel_receipts"))
}

func TestOnlyPostIsTaken(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
		r := f.callback(t, string(testhouse.Paid(t, "tx", "o", 9900)))
		r.Method = method
		got := f.send(t, r)
		got.problem(t, 405, "method_not_allowed")
		require.Equal(t, "POST", got.Header.Get("Allow"))
	}
	require.Zero(t, f.stored(t))
}

func TestUnknownChannelsAndAccountsAreRefusedBeforeAnythingIsRead(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for path, code := range map[string]string{
		"/callbacks/nochannel/" + f.Account.Name:           "channel_not_found",
		"/callbacks/STANDARD/" + f.Account.Name:            "channel_not_found",
		"/callbacks/standard/nobody":                       "account_not_found",
		"/callbacks/standard/" + f.Account.Name + "x":      "account_not_found",
		"/callbacks/standard/%00":                          "account_not_found",
		"/callbacks/standard/%ff":                          "account_not_found",
		"/callbacks/standard/" + strings.Repeat("a", 5000): "account_not_found",
	} {
		// The head announces a gigabyte; none of it is ever sent, and the answer comes all the same.
		c := f.dial(t)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: 1073741824\r\n\r\n", path)
		c.response(t, path).problem(t, 404, code)
	}
	f.requireNoError(t)
}

func TestABodyThatIsCutOffIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	body := testhouse.Paid(t, "tx", "o", 9900)
	header := sign(t, f.Secret, time.Now(), string(body))
	for name, send := range map[string]func(c *wire){
		"before its length": func(c *wire) {
			fmt.Fprintf(c, "Content-Length: %d\r\n\r\n%s", len(body)+1, body)
		},
		"in a chunk": func(c *wire) {
			fmt.Fprintf(c, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body)+1, body)
		},
		"before the last chunk": func(c *wire) {
			fmt.Fprintf(c, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body)
		},
		"in a chunk that is none": func(c *wire) {
			fmt.Fprintf(c, "Transfer-Encoding: chunked\r\n\r\nzz\r\n%s\r\n0\r\n\r\n", body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.dial(t)
			c.head(t, f.callbackPath(), header)
			send(c)
			require.NoError(t, c.CloseWrite())
			c.response(t, f.callbackPath()).problem(t, 400, "body_incomplete")
			require.Zero(t, f.stored(t))
		})
	}
}

// wire is a connection on which a test writes HTTP by hand.
type wire struct{ *net.TCPConn }

func (f *face) dial(t *testing.T) *wire {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return &wire{c.(*net.TCPConn)}
}

// head writes the request line and the headers, without the blank line after them.
func (c *wire) head(t *testing.T, path string, h http.Header) {
	t.Helper()
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: test\r\n", path)
	require.NoError(t, h.Write(&head))
	_, err := c.Write(head.Bytes())
	require.NoError(t, err)
}

func (c *wire) response(t *testing.T, path string) reply {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	got := reply{response, string(text)}
	requireDescribed(t, "POST", path, got)
	return got
}
