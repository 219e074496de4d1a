package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/stripe"
)

// TestWhatIsUnknownIsDoneOnce plays every way in which an answer can fail against every call that makes something. The error is
// never definite; the query and the same call again, once Stripe behaves, end with exactly one thing made.
func TestWhatIsUnknownIsDoneOnce(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for fault, c := range map[string]struct {
		faults simulator.Faults
		quirks simulated.Quirks
		done   bool // though the answer failed
		kept   bool // the failure is repeated until Stripe forgets the key
	}{
		"refused with 500":             {faults: simulator.Faults{Refuse: 2}},
		"the answer is lost":           {faults: simulator.Faults{Drop: 2}, done: true},
		"the answer is cut off":        {faults: simulator.Faults{Garble: 1}, done: true},
		"a 500 that the key keeps":     {quirks: simulated.Quirks{FailKept: 1}, kept: true},
		"done, and a 500 that is kept": {quirks: simulated.Quirks{FailAfter: 1}, done: true, kept: true},
		"another call under way":       {quirks: simulated.Quirks{Busy: 1}},
	} {
		for matter, m := range matters() {
			t.Run(matter+", "+fault, func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				do, made := m(t, s)
				faults := c.faults
				faults.Only = matter
				s.misbehave(faults)
				s.sim.Quirk(c.quirks)
				unknown(t, do(t.Context()), fault)
				s.misbehave(simulator.Faults{})
				require.Equal(t, c.done, made() == 1, "%s: made %d", fault, made())
				if err := do(t.Context()); err != nil {
					require.True(t, c.kept, "%s: %v", fault, err)
					unknown(t, err, "repeated by Stripe")
					require.Zero(t, made(), "what is there is found, and the failure with it")
					s.sim.ForgetKeys()
					require.NoError(t, do(t.Context()), fault)
				}
				require.NoError(t, do(t.Context()), fault)
				require.Equal(t, 1, made(), fault)
			})
		}
	}
}

// matters are the calls that make something, by the simulator's name: how to make it, and how often it was made.
func matters() map[string]func(*testing.T, *shop) (do func(context.Context) error, made func() int) {
	return map[string]func(*testing.T, *shop) (func(context.Context) error, func() int){
		"prepay": func(_ *testing.T, s *shop) (func(context.Context) error, func() int) {
			o := order("order-1")
			return func(ctx context.Context) error { _, err := s.Prepay(ctx, o); return err }, func() int { return len(s.sim.Orders()) }
		},
		"refund": func(t *testing.T, s *shop) (func(context.Context) error, func() int) {
			_, id := s.sell(t, order("order-1"))
			return func(ctx context.Context) error { _, err := s.Refund(ctx, refundFor(id, "refund-1", 400)); return err },
				func() int { return int(s.sim.Orders()[0].Refunded / 400) }
		},
		"share": func(t *testing.T, s *shop) (func(context.Context) error, func() int) {
			_, id := s.sell(t, order("order-1"))
			share := shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300})
			return func(ctx context.Context) error { _, err := s.Share(ctx, share); return err }, func() int { return s.sim.Transferred(anna) / 300 }
		},
		"return_share": func(t *testing.T, s *shop) (func(context.Context) error, func() int) {
			_, id := s.sell(t, order("order-1"))
			shared, err := s.Share(t.Context(), shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300}))
			require.NoError(t, err)
			r := channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", ShareID: shared.ShareID, Account: anna, Amount: 300, Currency: "USD"}
			return func(ctx context.Context) error { _, err := s.ReturnShare(ctx, r); return err },
				func() int { return (300 - s.sim.Transferred(anna)) / 300 }
		},
	}
}

// everyCall makes each call of the adapter once.
func everyCall(s *shop, paid channel.Order, id string) map[string]func(context.Context) error {
	share := shareOf(id, "share-9", channel.ShareReceiver{Account: anna, Amount: 1})
	back := channel.ShareReturn{OutReturnNo: "return-9", OutOrderNo: "share-9", Account: anna, Amount: 1, Currency: "USD"}
	return map[string]func(context.Context) error{
		"prepay":      func(ctx context.Context) error { _, err := s.Prepay(ctx, order("order-9")); return err },
		"query":       func(ctx context.Context) error { _, err := s.Query(ctx, paid); return err },
		"query, lost": func(ctx context.Context) error { _, err := s.Query(ctx, order("order-1")); return err },
		"close":       func(ctx context.Context) error { return s.Close(ctx, paid) },
		"refund":      func(ctx context.Context) error { _, err := s.Refund(ctx, refundFor(id, "refund-9", 1)); return err },
		"query_refund": func(ctx context.Context) error {
			_, err := s.QueryRefund(ctx, refundFor(id, "refund-9", 1))
			return err
		},
		"share":        func(ctx context.Context) error { _, err := s.Share(ctx, share); return err },
		"query_share":  func(ctx context.Context) error { _, err := s.QueryShare(ctx, share); return err },
		"finish_share": func(ctx context.Context) error { _, err := s.FinishShare(ctx, share); return err },
		"return_share": func(ctx context.Context) error { _, err := s.ReturnShare(ctx, back); return err },
		"query_return": func(ctx context.Context) error { _, err := s.QueryReturn(ctx, back); return err },
		"bill": func(ctx context.Context) error {
			_, err := s.Bill(ctx, channel.Date{Year: 2026, Month: 1, Day: 2})
			return err
		},
	}
}

func TestWhatWeAloneGotWrongOrWhatPassesIsNeverDefinite(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]simulated.Quirks{
		"the restricted key may not": {Forbid: []string{"/v1/"}},
		"too many calls":             {Throttle: 100},
	} {
		s := newShop(t)
		paid, id := s.sell(t, order("order-1"))
		s.sim.Quirk(quirks)
		for call, do := range everyCall(s, paid, id) {
			unknown(t, do(t.Context()), name+": "+call)
		}
	}
}

func TestEveryAnswerOfNoUseIsUnknown(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a web page":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sign in</html>") },
		"an empty answer": func(http.ResponseWriter, *http.Request) {},
		"JSON of nobody":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) },
		"JSON null":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `null`) },
		"404 of a proxy":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not found", 404) },
		"400 of a proxy":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad request", 400) },
		"402 without a type": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(402)
			fmt.Fprint(w, `{"error":{"message":"pay"}}`)
		},
		"424": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(424)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error"}}`)
		},
		"502": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"500 in Stripe's form": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"x"}}`)
		},
		"202": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(202)
			fmt.Fprint(w, `{"object":"refund","id":"re_1"}`)
		},
		"2 MiB": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"object":"%s"}`, strings.Repeat("x", 2<<20))
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"object"`)
		},
		"no reply": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		account := open(t, map[string]any{"base_url": server.URL})
		s := &shop{Acquirer: account.(channel.Acquirer), account: account}
		paid := order("order-1")
		paid.Reference = "pi_1"
		for call, do := range everyCall(s, paid, "pi_1") {
			unknown(t, do(t.Context()), name+": "+call)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(thief.Close)
	s := newShop(t)
	paid, id := s.sell(t, order("order-1"))
	s.sim.Quirk(simulated.Quirks{Redirect: 1000, RedirectTo: thief.URL})
	for call, do := range everyCall(s, paid, id) {
		unknown(t, do(t.Context()), call)
	}
	require.Zero(t, reached.Load(), "the secret key stays here")
}

func TestACallIsGivenUpWithItsContext(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.misbehave(simulator.Faults{Delay: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan error, 1)
	go func() { _, err := s.Prepay(ctx, order("order-1")); entered <- err }()
	require.Eventually(t, func() bool { return s.calls("prepay") == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	err := <-entered
	unknown(t, err, "given up")
	require.ErrorIs(t, err, context.Canceled)
}

func TestRequestsSayWhoAsksAndInWhichVersion(t *testing.T) {
	t.Parallel()
	heads := make(chan http.Header, 10)
	paths := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Header.Clone()
		paths <- r.URL.Path
		w.WriteHeader(503)
	}))
	t.Cleanup(server.Close)
	a := open(t, map[string]any{"base_url": server.URL + "/in/front/"}).(channel.Acquirer)
	_, err := a.Prepay(t.Context(), order("order-1"))
	require.Error(t, err)
	h := <-heads
	require.Equal(t, "/in/front/v1/payment_intents", <-paths)
	require.Equal(t, "Bearer "+secretKey, h.Get("Authorization"))
	require.Equal(t, stripe.APIVersion, h.Get("Stripe-Version"))
	require.Equal(t, "application/x-www-form-urlencoded", h.Get("Content-Type"))
	require.Equal(t, "paylatch:prepay:order-1", h.Get("Idempotency-Key"))
	_, err = a.QueryRefund(t.Context(), refundFor("pi_1", "refund-1", 1))
	require.Error(t, err)
	require.Empty(t, (<-heads).Get("Idempotency-Key"))
}

func TestNoErrorQuotesTheKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	strange := newShop(t) // another account's Stripe, which does not know this one's key
	api := httptest.NewServer(strange.sim.Handler())
	t.Cleanup(api.Close)
	account, err := stripe.Channel{}.Open("main", s.sim.Config(api.URL))
	require.NoError(t, err)
	_, err = account.(channel.Acquirer).Prepay(t.Context(), order("order-1"))
	unknown(t, err, "a key that is not taken may be taken again tomorrow")
	require.NotContains(t, err.Error(), "sk_test")
	require.Contains(t, err.Error(), "secret_key")
	for _, f := range account.(channel.Acquirer).Check(t.Context()) {
		require.NotContains(t, f.Detail, "sk_test")
	}
}

func TestWebhooksAsStripeSendsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults  simulator.Faults
		refused bool
	}{
		"each once":             {faults: simulator.Faults{}},
		"each five times":       {faults: simulator.Faults{NoticeTimes: 5}},
		"by the elder secret":   {faults: simulator.Faults{SignWith: "old"}},
		"while one is rolled":   {faults: simulator.Faults{SignWith: "rolling"}},
		"by nobody's secret":    {faults: simulator.Faults{SignWith: "wrong"}, refused: true},
		"by a scheme for tests": {faults: simulator.Faults{SignWith: "probe"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			o := order("order-1")
			o.Method, o.ReturnURL = "checkout", "https://shop.example/thanks"
			o = s.announce(t, o)
			s.misbehave(c.faults)
			require.NoError(t, s.sim.Pay("order-1"))
			if c.refused {
				// A refusal makes Stripe send again: the genuine copy credits later, no marker is left.
				require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.refused >= 3 }, 5*time.Second, time.Millisecond)
				s.mu.Lock()
				require.Empty(t, s.authent)
				s.mu.Unlock()
				return
			}
			standing, err := s.Query(t.Context(), o)
			require.NoError(t, err)
			e := s.said(t, standing.Body)[0]
			byCallback, times := s.told("stripe:" + e.TransactionID + ":PAY_SUCCESS")
			require.Equal(t, e, byCallback)
			require.Equal(t, 3*max(1, c.faults.NoticeTimes), times)
			require.Len(t, s.authent, 2, "however many event ids: the payment, and the hint of its fee")
		})
	}
}

func TestWebhooksInTheWrongOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.misbehave(simulator.Faults{Withhold: true, Reverse: true})
	o := s.announce(t, order("order-1"))
	require.NoError(t, s.sim.Decline("order-1"))
	require.NoError(t, s.sim.Pay("order-1"))
	_, err := s.Refund(t.Context(), refundFor(o.Reference, "refund-1", 400))
	require.NoError(t, err)
	s.sim.Core().Flush()
	for _, key := range []string{":PAY_SUCCESS", ":PAY_FAILED"} {
		_, times := s.told("stripe:" + o.Reference + key)
		require.Positive(t, times, key)
	}
	bodies := s.sim.Core().Sent()
	require.Contains(t, string(bodies[0].Body), "charge.refunded", "the last is sent first")
}

func TestErrorsCanBeTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		w.WriteHeader(402)
		fmt.Fprint(w, `{"error":{"type":"card_error","code":"card_declined","decline_code":"do_not_honor","message":"Your card was declined."}}`)
	}))
	t.Cleanup(server.Close)
	a := open(t, map[string]any{"base_url": server.URL}).(channel.Acquirer)
	_, err := a.Prepay(t.Context(), order("order-1"))
	definite(t, err, "do_not_honor")
	require.Equal(t, "Stripe answers with status 402: do_not_honor: Your card was declined. (req_1)", err.Error())
	var rejection *channel.Rejection
	require.True(t, errors.As(err, &rejection))
	require.Equal(t, "Your card was declined.", rejection.Detail)
}
