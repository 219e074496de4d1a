package wechatpay_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
	"github.com/paylatch/paylatch/internal/channel/wechatpay"
)

// house is an account of the simulator, and the callback endpoint that its notices go to.
type house struct {
	channel.Acquirer
	account  channel.Account
	sim      *simulated.Simulator
	callback string

	mu       sync.Mutex
	events   []channel.Event
	refusals []string
}

// newHouse opens an account of a simulator; change may rewrite its configuration.
func newHouse(t *testing.T, change func(config map[string]any)) *house {
	t.Helper()
	h := &house{sim: simulated.New()}
	api := httptest.NewServer(h.sim.Handler())
	t.Cleanup(api.Close)
	endpoint := httptest.NewServer(http.HandlerFunc(h.receive))
	t.Cleanup(endpoint.Close)
	t.Cleanup(h.sim.Core().Close)
	h.callback = endpoint.URL + "/callbacks/wechatpay/main"
	h.account = openSimulated(t, h.sim, api.URL, change)
	h.Acquirer = h.account.(channel.Acquirer)
	return h
}

func openSimulated(t *testing.T, sim *simulated.Simulator, url string, change func(map[string]any)) channel.Account {
	t.Helper()
	config := sim.Config(url)
	if change != nil {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(config, &fields))
		change(fields)
		var err error
		config, err = json.Marshal(fields)
		require.NoError(t, err)
	}
	return openAccount(t, config)
}

// receive is what the product does with a callback, without its database.
func (h *house) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err = h.account.Verify(channel.Notification{Header: r.Header, Body: body, ReceivedAt: time.Now()})
	if refusal, ok := err.(*channel.Refusal); ok {
		h.refusals = append(h.refusals, refusal.Code)
		ack := wechatpay.Channel{}.Refused(refusal.Status, refusal.Code, refusal.Detail)
		w.WriteHeader(ack.Status)
		_, _ = w.Write(ack.Body)
		return
	}
	events, err := channel.Read(h.account, body)
	if err != nil {
		h.refusals = append(h.refusals, err.Error())
	}
	h.events = append(h.events, events...)
	w.WriteHeader(wechatpay.Channel{}.Accepted().Status)
}

// received waits for the notices that were begun and gives what they said.
func (h *house) received() []channel.Event {
	h.sim.Core().Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

func (h *house) refused() []string {
	h.sim.Core().Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refusals
}

func (h *house) order(number string, amount int64) channel.Order {
	return channel.Order{
		OutTradeNo: number, Amount: amount, Currency: "CNY", Description: "书", ExpiresAt: time.Now().Add(time.Hour), NotifyURL: h.callback,
	}
}

// paid announces an order and lets it be paid; it gives the transaction.
func (h *house) paid(t *testing.T, o channel.Order) string {
	t.Helper()
	_, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, h.sim.Pay(o.OutTradeNo))
	for _, known := range h.sim.Orders() {
		if known.OutTradeNo == o.OutTradeNo {
			return known.TransactionID
		}
	}
	t.Fatal("the simulator forgot the order")
	return ""
}

func (h *house) refundOf(transaction, number string, amount, total int64) channel.Refund {
	return channel.Refund{OutRefundNo: number, TransactionID: transaction, Amount: amount, Total: total, Currency: "CNY", Reason: "不要了", NotifyURL: h.callback}
}

func (h *house) calls(kind string) int { return len(h.sim.Core().Calls(kind)) }

func (h *house) misbehave(f simulator.Faults) { h.sim.Core().Misbehave(f) }

// stub is an account whose API answers what the test says, signed by the simulator's key of a name ("" is not at all).
func stub(t *testing.T, key string, answer func(r *http.Request) (status int, body string)) channel.Acquirer {
	t.Helper()
	sim := simulated.New()
	t.Cleanup(sim.Core().Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := answer(r)
		if key != "" {
			for name, values := range sim.Sign(key, []byte(body), time.Now()) {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(api.Close)
	return openSimulated(t, sim, api.URL, nil).(channel.Acquirer)
}

// everyCall makes each outgoing call once and gives its error, by the simulator's name of the call.
func everyCall(ctx context.Context, a channel.Acquirer, o channel.Order, r channel.Refund, s channel.Share, back channel.ShareReturn) map[string]func() error {
	return map[string]func() error{
		"prepay":       func() error { _, err := a.Prepay(ctx, o); return err },
		"query":        func() error { _, err := a.Query(ctx, o); return err },
		"close":        func() error { return a.Close(ctx, o) },
		"refund":       func() error { _, err := a.Refund(ctx, r); return err },
		"query_refund": func() error { _, err := a.QueryRefund(ctx, r); return err },
		"share":        func() error { _, err := a.Share(ctx, s); return err },
		"query_share":  func() error { _, err := a.QueryShare(ctx, s); return err },
		"finish_share": func() error { _, err := a.FinishShare(ctx, s); return err },
		"return_share": func() error { _, err := a.ReturnShare(ctx, back); return err },
		"query_return": func() error { _, err := a.QueryReturn(ctx, back); return err },
		"bill": func() error {
			_, err := a.Bill(ctx, channel.Date{Year: 2026, Month: time.March, Day: 1})
			return err
		},
	}
}
