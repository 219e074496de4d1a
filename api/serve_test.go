package api_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/paylatch/paylatch/api"
)

// serve runs a handler on a server of the product's own, until the test ends.
func serve(t *testing.T, h http.Handler) (url string, logs *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- api.Serve(ctx, "127.0.0.1:0", h, zap.New(core), func(a string) { address <- a }) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return "http://" + <-address, logs
}

func TestWhatTheServerItselfHasToSayIsInTheLog(t *testing.T) {
	t.Parallel()
	url, logs := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a handler of nobody's") }))
	_, err := http.Get(url)
	require.Error(t, err)
	require.Eventually(t, func() bool { return logs.Len() > 0 }, 20*time.Second, 5*time.Millisecond)
	require.Contains(t, logs.All()[0].Message, "panic serving")
	require.Equal(t, "http", logs.All()[0].LoggerName)
}

func TestARequestHasBounds(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	status := func(request string) (code int) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		go func() { _, _ = conn.Write([]byte(request)) }() // the server may hang up in the middle
		answer := make([]byte, 12)
		n, err := conn.Read(answer)
		require.NoError(t, err)
		_, digits, _ := strings.Cut(string(answer[:n]), " ")
		for _, d := range digits {
			code = 10*code + int(d-'0')
		}
		return code
	}
	require.Equal(t, 204, status("GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	require.Equal(t, 431, status("GET / HTTP/1.1\r\nHost: h\r\nX-Long: "+strings.Repeat("x", 1<<20)+"\r\n\r\n"))
	require.Equal(t, 400, status("GET / HTTP/1.1\r\n\r\n"))
}

func TestACallerThatDoesNotGoOnIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	url, _ := serve(t, f.handler)
	address := strings.TrimPrefix(url, "http://")
	for name, sent := range map[string]string{
		"in its header": "POST /v1/payments HTTP/1.1\r\nHost: h\r\nAuthor",
		"in its body": "POST /v1/payments HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + f.APIKey +
			"\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n{\"out_trade_no\":",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte(sent))
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			answer, err := io.ReadAll(conn)
			require.NoError(t, err, "the server ends it")
			require.NotContains(t, string(answer), " 200 ")
			require.NotContains(t, string(answer), " 201 ")
			require.Zero(t, f.Count(t, "SELECT (SELECT count(*) FROM payments) + (SELECT count(*) FROM idempotency_keys)"))
		})
	}
}

func TestEveryAnswerSaysWhatABrowserMayDoWithIt(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	policies := map[string]string{"/docs": "style-src 'self'", "/console": "script-src 'self'"}
	for _, path := range []string{"/v1/payments", "/v1/payments/none", "/nowhere", "/healthz", "/metrics", "/openapi.yaml", "/docs", "/console", "/callbacks/standard/none"} {
		got := f.call(t, "GET", path, "")
		require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-store", got.Header.Get("Cache-Control"), path)
		require.Equal(t, "no-referrer", got.Header.Get("Referrer-Policy"), path)
		require.Equal(t, "DENY", got.Header.Get("X-Frame-Options"), path)
		policy := got.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", path)
		require.Contains(t, policy, "frame-ancestors 'none'", path)
		require.Contains(t, policy, policies[path], path)
		require.NotContains(t, policy, "unsafe", path)
	}
}

func TestTheDescriptionIsServedAsItIs(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.APIKey = "none" // everybody may read it
	require.True(t, bytes.Contains([]byte(f.call(t, "GET", "/docs", "").is(t, 200).Text), []byte("createTransfer")))
	require.True(t, strings.HasPrefix(f.call(t, "GET", "/openapi.yaml", "").is(t, 200).Text, "openapi: 3.1.0\n"))
	f.call(t, "GET", "/docs/style.css", "").is(t, 200)
	f.call(t, "GET", "/docs/", "").problem(t, 404, "route_not_found")
}
