package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/client"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestAnOrderFromItsCreationToItsStatement(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	_, err := s.client.PutStock(ctx, "book", 5, 0)
	require.NoError(t, err)
	request := client.PaymentRequest{
		OutTradeNo: "o|1*", Amount: 9900, Currency: "CNY", Description: "a book", Items: []client.Item{{SKU: "book", Quantity: 2}},
		ExpiresInSeconds: 900, RedemptionCode: true, Metadata: json.RawMessage(`{"n":9007199254740993}`),
	}
	made, err := s.client.CreatePayment(ctx, request)
	require.NoError(t, err)
	require.Equal(t, client.PaymentPending, made.State)
	require.Equal(t, request.Items, made.Items)
	require.JSONEq(t, `{"n":9007199254740993}`, string(made.Metadata))
	again, err := s.client.CreatePayment(ctx, request)
	require.NoError(t, err)
	require.Equal(t, made, again)
	request.Amount++
	_, err = s.client.CreatePayment(ctx, request)
	require.True(t, client.HasCode(err, "out_trade_no_reused"))

	s.Report(t, testhouse.Paid(t, "tx", "o|1*", 9900))
	require.Equal(t, []payment.Outcome{payment.Credited}, s.driver.Book(t, s.Books))
	paid, err := s.client.Payment(ctx, "o|1*")
	require.NoError(t, err)
	require.Equal(t, client.PaymentPaid, paid.State)
	require.NotNil(t, paid.PaidAt)
	require.Len(t, paid.RedemptionCode, 16)
	require.Len(t, paid.JournalKeys, 1)
	require.Equal(t, client.EventDone, paid.Events[0].State)
	require.Equal(t, "CREDITED", *paid.Events[0].Outcome)
	_, err = s.client.ClosePayment(ctx, "o|1*")
	require.True(t, client.HasCode(err, "already_paid"))
	shipped, err := s.client.ShipPayment(ctx, "o|1*")
	require.NoError(t, err)
	require.Equal(t, client.PaymentShipped, shipped.State)
	completed, err := s.client.CompletePayment(ctx, "o|1*")
	require.NoError(t, err)
	require.Equal(t, client.PaymentCompleted, completed.State)
	stock, err := s.client.Stock(ctx, "book")
	require.NoError(t, err)
	require.Equal(t, []int64{3, 0}, []int64{stock.OnHand, stock.Reserved})

	account, err := s.client.Account(ctx, "merchant", "")
	require.NoError(t, err)
	require.Equal(t, []int64{9900, 9900}, []int64{account.Balance, account.Available})
	for entry, err := range s.client.Entries(ctx, "merchant", "CNY") {
		require.NoError(t, err)
		require.Equal(t, int64(9900), entry.Amount)
		require.Equal(t, paid.JournalKeys[0], entry.JournalKey)
	}
	_, err = s.client.Payment(ctx, "none")
	var refusal *client.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, 404, refusal.Status)
	require.Equal(t, "payment_not_found", refusal.Code)
	require.NotEmpty(t, refusal.Detail)
	require.NotEmpty(t, refusal.RequestID)
	require.Contains(t, err.Error(), refusal.RequestID)
	s.RequireInvariants(t)
}

func TestAListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for i := range 103 {
		_, _, err := s.Orders.Create(t.Context(), s.Tenant, testhouse.Order(fmt.Sprint("o-", i), 1), s.Clock.Now())
		require.NoError(t, err)
	}
	seen := 0
	pending := s.client.Payments(t.Context(), client.PaymentFilter{State: client.PaymentPending, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	for range 2 { // it can be read again
		seen = 0
		for p, err := range pending {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("o-", 102-seen), p.OutTradeNo)
			seen++
		}
		require.Equal(t, 103, seen)
	}
	for range s.client.Payments(t.Context(), client.PaymentFilter{}) {
		break // and left
	}
	for p, err := range s.client.Payments(t.Context(), client.PaymentFilter{State: "NONE"}) {
		require.Nil(t, p)
		require.True(t, client.HasCode(err, "x", "state_invalid"))
		seen++
	}
	require.Equal(t, 104, seen, "an error ends it")
}

func TestMoneyAndEventsOfATenant(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	for _, r := range []client.AccountRequest{{Code: "funding", Currency: "CNY", AllowNegative: true}, {Code: "a", Currency: "CNY"}, {Code: "b", Currency: "CNY"}} {
		account, err := s.client.OpenAccount(ctx, r)
		require.NoError(t, err)
		require.Equal(t, r.Code, account.Code)
	}
	journal := func(key string, amount int64) client.Journal {
		return client.Journal{Key: key, Lines: []client.Line{{Account: "funding", Currency: "CNY", Amount: -amount}, {Account: "a", Currency: "CNY", Amount: amount}}}
	}
	results, err := s.client.PostJournals(ctx, []client.Journal{journal("j1", 500), journal("j1", 500), {Key: "j2", Lines: []client.Line{{Account: "a", Currency: "CNY", Amount: 1}}}})
	require.NoError(t, err)
	require.Equal(t, []string{client.JournalPosted, client.JournalRepeated, client.JournalRefused}, []string{results[0].State, results[1].State, results[2].State})
	require.Equal(t, "journal_unbalanced", results[2].Code)

	moved, err := s.client.CreateTransfer(ctx, client.TransferRequest{From: "a", To: "b", Amount: 200, Currency: "CNY", Reference: "r"})
	require.NoError(t, err)
	require.Equal(t, client.TransferConfirmed, moved.State)
	read, err := s.client.Transfer(ctx, moved.ID)
	require.NoError(t, err)
	require.Equal(t, moved, read)
	_, err = s.client.CreateTransfer(ctx, client.TransferRequest{From: "a", To: "b", Amount: 301, Currency: "CNY"})
	require.True(t, client.HasCode(err, "insufficient_funds"))
	trying, err := s.client.CreateTransfer(ctx, client.TransferRequest{Mode: "tcc", Participants: []client.Participant{
		{Type: "ledger", Account: "a", Amount: -1, Currency: "CNY"}, {Type: "ledger", Account: "b", Amount: 1, Currency: "CNY"},
	}}, client.Async(), client.Key("async"))
	require.NoError(t, err)
	require.Equal(t, client.TransferTrying, trying.State)

	s.Report(t, testhouse.Paid(t, "tx-1", "nobody", 7))
	s.Report(t, testhouse.Paid(t, "tx-2", "nobody", 8))
	s.Report(t, testhouse.Paid(t, "tx-3", "nobody", 9))
	var ids []int64
	for ev, err := range s.client.Events(ctx, client.EventFilter{State: client.EventParked, OutTradeNo: "nobody"}) {
		require.NoError(t, err)
		ids = append(ids, ev.ID)
	}
	require.Len(t, ids, 3)
	booked, err := s.client.BookEventToSuspense(ctx, ids[0], "it came")
	require.NoError(t, err)
	require.Equal(t, client.EventDone, booked.State)
	require.NotEmpty(t, booked.JournalKey)
	rejected, err := s.client.RejectEvent(ctx, ids[1], "a test")
	require.NoError(t, err)
	require.Equal(t, client.EventIgnored, rejected.State)
	replayed, err := s.client.ReplayEvent(ctx, ids[2])
	require.NoError(t, err)
	require.Equal(t, client.EventParked, replayed.State)
	event, err := s.client.Event(ctx, ids[2])
	require.NoError(t, err)
	require.Equal(t, replayed, event)
	s.RequireInvariants(t)
}

// spoiled is a way to the server on which things go wrong.
type spoiled struct {
	mu sync.Mutex
	// spoil gets the answer to the n-th attempt, from 1, and gives what comes of it.
	spoil func(n int, response *http.Response) (*http.Response, error)
	keys  []string
}

func (s *spoiled) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	return s.spoil(len(s.keys), response)
}

var errLost = errors.New("the connection broke")

// lose loses the first n answers: the server has done its work.
func lose(n int) *spoiled {
	return &spoiled{spoil: func(i int, response *http.Response) (*http.Response, error) {
		if i <= n {
			response.Body.Close()
			return nil, errLost
		}
		return response, nil
	}}
}

func TestALostAnswerIsAskedForAgainUnderTheSameKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := s.client.OpenAccount(t.Context(), client.AccountRequest{Code: "funding", Currency: "CNY", AllowNegative: true})
	require.NoError(t, err)
	_, err = s.client.OpenAccount(t.Context(), client.AccountRequest{Code: "a", Currency: "CNY"})
	require.NoError(t, err)
	way := lose(3)
	c := s.connect(t, s.URL, client.HTTPClient(&http.Client{Transport: way}))
	moved, err := c.CreateTransfer(t.Context(), client.TransferRequest{From: "funding", To: "a", Amount: 5, Currency: "CNY"})
	require.NoError(t, err)
	require.Equal(t, client.TransferConfirmed, moved.State)
	require.Len(t, way.keys, 4)
	require.GreaterOrEqual(t, len(way.keys[0]), 20)
	for _, key := range way.keys {
		require.Equal(t, way.keys[0], key)
	}
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM transfers"))
	require.Equal(t, 5, s.Balance(t, "a"))

	// Another call has another key, unless the caller says so.
	other, err := c.CreateTransfer(t.Context(), client.TransferRequest{From: "funding", To: "a", Amount: 5, Currency: "CNY"})
	require.NoError(t, err)
	require.NotEqual(t, moved.ID, other.ID)
	same, err := c.CreateTransfer(t.Context(), client.TransferRequest{From: "funding", To: "a", Amount: 5, Currency: "CNY"}, client.Key(way.keys[0]))
	require.NoError(t, err)
	require.Equal(t, moved.ID, same.ID)
	_, err = c.CreateTransfer(t.Context(), client.TransferRequest{From: "funding", To: "a", Amount: 6, Currency: "CNY"}, client.Key(way.keys[0]))
	require.True(t, client.HasCode(err, "idempotency_key_reused"))

	// It gives up in the end, and says why.
	way = lose(100)
	c = s.connect(t, s.URL, client.HTTPClient(&http.Client{Transport: way}), client.Attempts(3))
	_, err = c.Account(t.Context(), "a", "CNY")
	require.ErrorIs(t, err, errLost)
	require.NotContains(t, err.Error(), s.APIKey)
	require.Len(t, way.keys, 3)
	require.Empty(t, way.keys[0], "a read needs no name")
}

func TestAStockThatIsPutForOneVersionIsNotPutTwice(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first, err := s.client.PutStock(t.Context(), "book", 1, 0)
	require.NoError(t, err)
	way := lose(1)
	c := s.connect(t, s.URL, client.HTTPClient(&http.Client{Transport: way}))
	_, err = c.PutStock(t.Context(), "book", 2, first.Version)
	require.ErrorIs(t, err, errLost, "a repeat would be told of a conflict with itself")
	require.Len(t, way.keys, 1)
	now, err := c.Stock(t.Context(), "book")
	require.NoError(t, err)
	require.Equal(t, int64(2), now.OnHand)
	way = lose(1)
	c = s.connect(t, s.URL, client.HTTPClient(&http.Client{Transport: way}))
	now, err = c.PutStock(t.Context(), "book", 3, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), now.OnHand)
	_, err = c.PutStock(t.Context(), "book", 4, first.Version)
	require.True(t, client.HasCode(err, "version_conflict"))
}

// scripted answers one attempt after another; the last answer stays.
func scripted(t *testing.T, answers ...func(http.ResponseWriter)) (url string, attempts func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		answer := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		answer(w)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func problem(status int, code string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"about:blank","title":"t","status":%d,"code":%q,"detail":"d"}`, status, code)
	}
}

func ok(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprint(w, `{"out_trade_no":"o","state":"PENDING"}`)
}

func TestWhatIsTriedAgainAndWhatIsNot(t *testing.T) {
	t.Parallel()
	page := func(w http.ResponseWriter) { w.WriteHeader(502); fmt.Fprint(w, "<html>") }
	for name, c := range map[string]struct {
		answers  []func(http.ResponseWriter)
		attempts int
		code     string
	}{
		"500, then done":                {[]func(http.ResponseWriter){problem(500, "internal"), ok}, 2, ""},
		"503 twice, then done":          {[]func(http.ResponseWriter){problem(503, "unavailable"), problem(503, "unavailable"), ok}, 3, ""},
		"429, then done":                {[]func(http.ResponseWriter){problem(429, "rate_limited"), ok}, 2, ""},
		"its twin, then done":           {[]func(http.ResponseWriter){problem(409, "idempotency_key_in_progress"), ok}, 2, ""},
		"a proxy's page, then done":     {[]func(http.ResponseWriter){page, ok}, 2, ""},
		"a proxy's page without an end": {[]func(http.ResponseWriter){page}, 4, "unexpected_answer"},
		"500 without an end":            {[]func(http.ResponseWriter){problem(500, "internal")}, 4, "internal"},
		"a refusal":                     {[]func(http.ResponseWriter){problem(409, "out_of_stock"), ok}, 1, "out_of_stock"},
		"400":                           {[]func(http.ResponseWriter){problem(400, "amount_invalid"), ok}, 1, "amount_invalid"},
		"401":                           {[]func(http.ResponseWriter){problem(401, "unauthorized"), ok}, 1, "unauthorized"},
		"403":                           {[]func(http.ResponseWriter){problem(403, "scope_missing"), ok}, 1, "scope_missing"},
		"422":                           {[]func(http.ResponseWriter){problem(422, "idempotency_key_reused"), ok}, 1, "idempotency_key_reused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, attempts := scripted(t, c.answers...)
			paylatch, err := client.New(url+"/", "plk_x", client.Attempts(4), client.Pause(func(int) time.Duration { return 0 }))
			require.NoError(t, err)
			p, err := paylatch.CreatePayment(t.Context(), client.PaymentRequest{OutTradeNo: "o"})
			require.Equal(t, c.attempts, attempts())
			if c.code == "" {
				require.NoError(t, err)
				require.Equal(t, "o", p.OutTradeNo)
				return
			}
			require.True(t, client.HasCode(err, c.code), "%v", err)
		})
	}
}

func TestACallerThatDoesNotWantToWaitIsToldSo(t *testing.T) {
	t.Parallel()
	url, attempts := scripted(t, problem(202, "idempotency_key_in_progress", "Retry-After", "1"), ok)
	c, err := client.New(url, "plk_x")
	require.NoError(t, err)
	_, err = c.CreatePayment(t.Context(), client.PaymentRequest{OutTradeNo: "o"}, client.Async())
	require.True(t, client.HasCode(err, "idempotency_key_in_progress"))
	require.Equal(t, 1, attempts())
}

func TestThePauseIsTheServersAndTheCallersTimeEndsIt(t *testing.T) {
	t.Parallel()
	url, attempts := scripted(t, problem(503, "unavailable", "Retry-After", "3600"), ok)
	c, err := client.New(url, "plk_x", client.Pause(func(int) time.Duration { return 0 }))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = c.CreatePayment(ctx, client.PaymentRequest{OutTradeNo: "o"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, client.HasCode(err, "unavailable"), "and what it waited for is told")
	require.Equal(t, 1, attempts(), "it waited, though its own pause is none")

	var asked []int
	url, _ = scripted(t, problem(500, "internal"))
	c, err = client.New(url, "plk_x", client.Attempts(4), client.Pause(func(attempt int) time.Duration { asked = append(asked, attempt); return 0 }))
	require.NoError(t, err)
	_, err = c.Payment(t.Context(), "o")
	require.Error(t, err)
	require.Equal(t, []int{2, 3, 4}, asked)
}

func TestAClientNeedsAnAddressAndAKey(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "pay.example.com", "ftp://pay.example.com", "https://", "https://u:p@pay.example.com", "https://pay.example.com?x=1", "https://pay.example.com:x"} {
		_, err := client.New(url, "plk_x")
		require.Error(t, err, url)
	}
	_, err := client.New("https://pay.example.com", "")
	require.Error(t, err)
	_, err = client.New("https://pay.example.com/paylatch/", "plk_x")
	require.NoError(t, err)
}

func TestARedirectIsNoAnswer(t *testing.T) {
	t.Parallel()
	// As a proxy that sends everybody to https does: followed, a POST would become a GET, and a list the payment that was made.
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var elsewhere sync.Map
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					elsewhere.Store(r.Method, true)
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(`{"items":[]}`))
					return
				}
				http.Redirect(w, r, "/elsewhere", status)
			}))
			t.Cleanup(srv.Close)
			for _, options := range [][]client.Option{nil, {client.HTTPClient(&http.Client{})}} {
				c, err := client.New(srv.URL, "plk_x", options...)
				require.NoError(t, err)
				_, err = c.CreatePayment(t.Context(), client.PaymentRequest{OutTradeNo: "o", Amount: 1, Currency: "CNY"})
				var refused *client.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, status, refused.Status)
			}
			elsewhere.Range(func(method, _ any) bool { t.Errorf("%v was sent elsewhere", method); return true })
		})
	}
}
