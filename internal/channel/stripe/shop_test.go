package stripe_test

import (
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
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/stripe"
)

// shop is an account of the adapter, a simulated Stripe behind real HTTP, and the webhooks that come from it.
type shop struct {
	sim *simulated.Simulator
	api string
	channel.Acquirer
	account channel.Account

	mu      sync.Mutex
	authent map[string]channel.Event // by key, what authentic webhooks said
	times   map[string]int
	refused int
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{sim: simulated.New(), authent: map[string]channel.Event{}, times: map[string]int{}}
	api := httptest.NewServer(s.sim.Handler())
	t.Cleanup(api.Close)
	s.api = api.URL
	account, err := stripe.Channel{}.Open("main", s.sim.Config(s.api))
	require.NoError(t, err)
	s.account, s.Acquirer = account, account.(channel.Acquirer)
	callbacks := httptest.NewServer(http.HandlerFunc(s.callback))
	t.Cleanup(callbacks.Close)
	t.Cleanup(s.sim.Core().Close)
	s.sim.Endpoint(callbacks.URL)
	return s
}

// again opens the account once more, as another process would.
func (s *shop) again(t *testing.T) channel.Acquirer {
	t.Helper()
	account, err := stripe.Channel{}.Open("main", s.sim.Config(s.api))
	require.NoError(t, err)
	return account.(channel.Acquirer)
}

func (s *shop) callback(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	ack := stripe.Channel{}.Accepted()
	err := s.account.Verify(channel.Notification{Header: r.Header, Body: body, ReceivedAt: time.Now()})
	if refusal, is := err.(*channel.Refusal); is {
		ack = stripe.Channel{}.Refused(refusal.Status, refusal.Code, refusal.Detail)
	}
	events, _ := channel.Read(s.account, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused++
	} else {
		for _, e := range events {
			e.OccurredAt, e.Note, e.Fee = time.Time{}, "", nil
			s.authent[e.Key("stripe", body)] = e
			s.times[e.Key("stripe", body)]++
		}
	}
	w.Header().Set("Content-Type", ack.ContentType)
	w.WriteHeader(ack.Status)
	_, _ = w.Write(ack.Body)
}

// told waits for the webhooks that were begun, and gives what was said under a key.
func (s *shop) told(key string) (channel.Event, int) {
	s.sim.Core().Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.authent[key], s.times[key]
}

// said reads the body of a standing as it will be read from the receipts.
func (s *shop) said(t *testing.T, body []byte) []channel.Event {
	t.Helper()
	events, err := channel.Read(s.account, body)
	require.NoError(t, err)
	for i := range events {
		events[i].OccurredAt, events[i].Note, events[i].Fee = time.Time{}, "", nil
	}
	return events
}

func order(no string) channel.Order {
	return channel.Order{OutTradeNo: no, Amount: 1000, Currency: "USD", Description: "A book", CreatedAt: time.Now()}
}

// announce prepays an order and gives it its reference.
func (s *shop) announce(t *testing.T, o channel.Order) channel.Order {
	t.Helper()
	prepaid, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	o.Reference = prepaid.Reference
	return o
}

// sell announces an order and lets it be paid; it gives the transaction.
func (s *shop) sell(t *testing.T, o channel.Order) (channel.Order, string) {
	t.Helper()
	o = s.announce(t, o)
	require.NoError(t, s.sim.Pay(o.OutTradeNo))
	standing, err := s.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderPaid, standing.State)
	return o, s.said(t, standing.Body)[0].TransactionID
}

func (s *shop) calls(kind string) int { return len(s.sim.Core().Calls(kind)) }

func (s *shop) misbehave(f simulator.Faults) { s.sim.Core().Misbehave(f) }

// lose lets the answers of a kind of call get lost until the shop behaves again. There are two, as net/http itself repeats a
// call that carries an Idempotency-Key where a connection that was used before breaks.
func (s *shop) lose(kind string) { s.misbehave(simulator.Faults{Drop: 2, Only: kind}) }

// unknown holds an error to be neither an answer nor a definite refusal.
func unknown(t *testing.T, err error, what string) {
	t.Helper()
	require.Error(t, err, what)
	require.False(t, channel.Definite(err), "%s: %v", what, err)
	require.NotErrorIs(t, err, channel.ErrPaid, what)
}

func definite(t *testing.T, err error, code string) {
	t.Helper()
	var rejection *channel.Rejection
	require.ErrorAs(t, err, &rejection)
	require.Equal(t, code, rejection.Code)
	require.NotEmpty(t, rejection.Detail)
}

func data(t *testing.T, p channel.Prepaid) map[string]string {
	t.Helper()
	var fields map[string]string
	require.NoError(t, json.Unmarshal(p.Data, &fields))
	return fields
}
