package alipay_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

// world is a simulated Alipay and an account at it, with an endpoint that takes its notices.
type world struct {
	*sim.Simulator
	account channel.Account
	channel.Acquirer
	notifyURL string

	mu      sync.Mutex
	events  []channel.Event
	refused []string // codes
}

func newWorld(t *testing.T, setUp ...func(*sim.Simulator)) *world {
	t.Helper()
	w := &world{Simulator: sim.New()}
	for _, s := range setUp {
		s(w.Simulator)
	}
	gateway := httptest.NewServer(w.Handler())
	callback := httptest.NewServer(http.HandlerFunc(w.take))
	t.Cleanup(func() {
		w.Core().Close()
		callback.Close()
		gateway.Close()
	})
	account, err := alipay.Channel{}.Open("main", w.Config(gateway.URL))
	require.NoError(t, err)
	w.account, w.Acquirer, w.notifyURL = account, account.(channel.Acquirer), callback.URL
	return w
}

// take answers a notice as the callback endpoint does.
func (w *world) take(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	ack := alipay.Channel{}.Accepted()
	if err == nil {
		err = w.account.Verify(channel.Notification{Header: r.Header, Body: body, ReceivedAt: time.Now()})
	}
	var events []channel.Event
	if err == nil {
		events, err = channel.Read(w.account, body)
	}
	w.mu.Lock()
	w.events = append(w.events, events...)
	if refusal, ok := err.(*channel.Refusal); ok {
		w.refused = append(w.refused, refusal.Code)
		ack = alipay.Channel{}.Refused(refusal.Status, refusal.Code, refusal.Detail)
	}
	w.mu.Unlock()
	rw.Header().Set("Content-Type", ack.ContentType)
	rw.WriteHeader(ack.Status)
	_, _ = rw.Write(ack.Body)
}

// told gives the events of the notices that were sent, once all have an answer.
func (w *world) told() []channel.Event {
	w.Core().Wait()
	return w.taken()
}

// taken gives the events so far.
func (w *world) taken() []channel.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]channel.Event(nil), w.events...)
}

func (w *world) order(number string, amount int64) channel.Order {
	return channel.Order{OutTradeNo: number, Amount: amount, Currency: "CNY", Description: "tea", NotifyURL: w.notifyURL, ExpiresAt: time.Now().Add(time.Hour)}
}

// paid announces an order and pays it; it gives Alipay's number of the trade.
func (w *world) paid(t *testing.T, number string, amount int64) string {
	t.Helper()
	_, err := w.Prepay(t.Context(), w.order(number, amount))
	require.NoError(t, err)
	require.NoError(t, w.Pay(number))
	for _, o := range w.Orders() {
		if o.OutTradeNo == number {
			return o.TransactionID
		}
	}
	require.Fail(t, "no such order")
	return ""
}

func (w *world) refunded(number string) int64 {
	for _, o := range w.Orders() {
		if o.OutTradeNo == number {
			return o.Refunded
		}
	}
	return -1
}

func (w *world) counted(kind string) int { return len(w.Core().Calls(kind)) }

var _ simulator.Simulator = (*sim.Simulator)(nil)

func requireRejection(t *testing.T, err error, code string) {
	t.Helper()
	var rejection *channel.Rejection
	require.ErrorAs(t, err, &rejection)
	require.Equal(t, code, rejection.Code)
	require.NotEmpty(t, rejection.Detail)
	require.True(t, channel.Definite(err))
}

// requireUnknown wants an error that leaves open whether the channel did it.
func requireUnknown(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.False(t, channel.Definite(err), err)
}

// serveReply is a gateway that answers everything with one text.
func serveReply(t *testing.T, reply string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, reply) })
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL + "/gateway.do"
}

// scripted is an account at a gateway that answers each method as told, signed by Alipay's key of these tests. A method that
// nothing is told of answers that it is not known.
func scripted(t *testing.T, answers map[string]string) channel.Acquirer {
	t.Helper()
	gateway := serve(t, func(w http.ResponseWriter, r *http.Request) {
		method := r.FormValue("method")
		answer, ok := answers[method]
		if !ok {
			answer = `{"code":"40004","msg":"Business Failed","sub_code":"ACQ.TRADE_NOT_EXIST","sub_msg":"?"}`
		}
		_, _ = io.WriteString(w, signedReply(strings.ReplaceAll(method, ".", "_")+"_response", answer))
	})
	return open(t, func(c *alipay.Config) { c.BaseURL = gateway }).(channel.Acquirer)
}

func signedReply(member, answer string) string {
	digest := crypto.SHA256.New()
	digest.Write([]byte(answer))
	signature, err := rsa.SignPKCS1v15(rand.Reader, alipayKey(), crypto.SHA256, digest.Sum(nil))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"%s":%s,"sign":"%s"}`, member, answer, base64.StdEncoding.EncodeToString(signature))
}

// failing is an answer with a code and a sub code.
func failing(code, sub string) string {
	return fmt.Sprintf(`{"code":"%s","msg":"m","sub_code":"%s","sub_msg":"为什么"}`, code, sub)
}

func dataOf(t *testing.T, p channel.Prepaid, name string) string {
	t.Helper()
	var data map[string]string
	require.NoError(t, json.NewDecoder(bytes.NewReader(p.Data)).Decode(&data))
	require.Len(t, data, 1)
	require.NotEmpty(t, data[name])
	return data[name]
}
