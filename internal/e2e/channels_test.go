package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simalipay "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	simstripe "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	simwechatpay "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// shop is a house with an account at a simulated acquirer, and its API.
type shop struct {
	*testhouse.House
	t      *testing.T
	engine client.Client
	sim    simulator.Simulator
	acct   string
	url    string
}

// acquirers are the simulated ones, each new.
func acquirers() []simulator.Simulator {
	return []simulator.Simulator{simwechatpay.New(), simalipay.New(), simstripe.New()}
}

// eachAcquirer tells a story with each simulated acquirer. Nobody works on the flows before the story says so.
func eachAcquirer(t *testing.T, tell func(t *testing.T, s *shop)) {
	for _, sim := range acquirers() {
		t.Run(sim.Name(), func(t *testing.T) { tell(t, openShop(t, sim)) })
	}
}

func openShop(t *testing.T, sim simulator.Simulator) *shop {
	t.Helper()
	c := newClient(t)
	starter := start.New(c)
	api := httptest.NewUnstartedServer(nil)
	base := "http://" + api.Listener.Addr().String()
	h := testhouse.New(t, starter)
	h.PublicURL = base
	h = testhouse.Reopen(t, h, starter)
	api.Config.Handler = handler(t, h, starter)
	api.Start()
	t.Cleanup(api.Close)
	acquirer := httptest.NewServer(sim.Handler())
	t.Cleanup(acquirer.Close)
	t.Cleanup(sim.Core().Close)
	s := &shop{House: h, t: t, engine: c, sim: sim, acct: "shop-" + h.Tenant, url: base}
	// All stories share one engine, and a flow of an event is named by its account: no two have one of the same number.
	_, err := h.Owner.Exec(t.Context(), fmt.Sprintf("ALTER TABLE channel_accounts ALTER COLUMN id RESTART WITH %d", time.Now().UnixNano()))
	require.NoError(t, err)
	require.NoError(t, h.Accounts.Add(t.Context(), h.Tenant, sim.Name(), s.acct, sim.Config(acquirer.URL)))
	if takes, ok := sim.(interface{ Endpoint(address string) }); ok {
		takes.Endpoint(base + "/callbacks/" + sim.Name() + "/" + s.acct)
	}
	return s
}

// call asks the API as the merchant.
func (s *shop) call(method, path string, body any) (status int, answer map[string]any) {
	s.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(s.t, err)
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, content)
	require.NoError(s.t, err)
	request.Header.Set("Authorization", "Bearer "+s.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer
}

func (s *shop) order(number string) map[string]any {
	return map[string]any{"out_trade_no": number, "amount": 9900, "currency": "CNY", "description": "one book", "channel": s.sim.Name()}
}

// announce creates an order and wants the channel's data.
func (s *shop) announce(number string) (channelData any) {
	s.t.Helper()
	status, answer := s.call(http.MethodPost, "/v1/payments", s.order(number))
	require.Equal(s.t, http.StatusCreated, status, answer)
	require.Equal(s.t, payment.PrepayReady, answer["prepay_state"], answer)
	require.NotEmpty(s.t, answer["channel_data"])
	return answer["channel_data"]
}

// known is an order as the simulator has it; the zero value where it has none.
func (s *shop) known(number string) (found simulator.Order) {
	for _, o := range s.sim.Orders() {
		if o.OutTradeNo == number {
			require.Zero(s.t, found, "the channel knows order %s twice", number)
			found = o
		}
	}
	return found
}

// requireAcknowledged holds every notice that was sent to a 2xx.
func (s *shop) requireAcknowledged() {
	s.t.Helper()
	s.sim.Core().Wait()
	for _, sent := range s.sim.Core().Sent() {
		require.Equal(s.t, 2, sent.Status/100, "%s was answered %d %s", sent.URL, sent.Status, sent.Answer)
	}
}

// credits lists an order's events that booked money.
func (s *shop) credits(number string) (list []payment.Event) {
	s.t.Helper()
	events, err := s.Orders.Events(s.t.Context(), s.Tenant, payment.EventFilter{OutTradeNo: number, Limit: 200})
	require.NoError(s.t, err)
	for _, e := range events {
		if e.Kind == channel.PaySuccess {
			list = append(list, e)
		}
	}
	return list
}

// credited is what the merchant was credited, with the fee that the channel kept: Stripe tells it some time after the payment.
func (s *shop) credited() int { return s.Balance(s.t, "merchant") + s.Balance(s.t, "fees") }

// stripeFee is what Stripe keeps of one order: 2.9 % and 30.
const stripeFee = 317

// requireFees waits until the fees of some payments are booked, where the channel tells fees.
func (s *shop) requireFees(payments int) (fees int) {
	s.t.Helper()
	if s.sim.Name() != "stripe" {
		require.Zero(s.t, s.Balance(s.t, "fees"))
		return 0
	}
	fees = payments * stripeFee
	require.Eventually(s.t, func() bool { return s.Balance(s.t, "fees") == fees }, 30*time.Second, 20*time.Millisecond)
	return fees
}

// left is what an order left in the books, without numbers and times of its own: each event that booked something, with each
// line of its journal.
func (s *shop) left(number string) []string {
	s.t.Helper()
	rows, err := s.Engine.Query(s.t.Context(), `
SELECT concat_ws(' ', e.kind, e.state, e.outcome, e.amount, e.currency, 'payer', coalesce(e.payer_amount::text, '?'), 'fee', coalesce(e.fee::text, '?'),
                 j.kind, split_part(a.code, ':', 1), n.amount)
  FROM channel_events e JOIN journals j ON j.id = e.journal_id JOIN entries n ON n.journal_id = j.id JOIN ledger_accounts a ON a.id = n.account_id
 WHERE e.tenant_id = $1 AND e.out_trade_no = $2 ORDER BY 1`, s.Tenant, number)
	require.NoError(s.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return list
}

func TestCreatePayNotifyThreeTimesCreditOnce(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		work(t, s.House, s.engine)
		data := s.announce("book-0001")
		status, again := s.call(http.MethodPost, "/v1/payments", s.order("book-0001"))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, data, again["channel_data"], "a repeat answers with the same")
		require.Len(t, s.sim.Core().Calls("prepay"), 1)

		s.sim.Core().Misbehave(simulator.Faults{NoticeTimes: 3})
		require.NoError(t, s.sim.Pay("book-0001"))
		requireState(t, s.House, "book-0001", payment.Paid)
		s.requireAcknowledged()
		require.GreaterOrEqual(t, len(s.sim.Core().Sent()), 3)
		require.Len(t, s.credits("book-0001"), 1)
		fee := s.requireFees(1)
		require.Equal(t, 9900-fee, s.Balance(t, "merchant"))
		require.Equal(t, 1+min(1, fee), s.Journals(t), "one of the money, and one of the fee where the channel tells it")
		s.RequireInvariants(t)
		requireClosed(t, s.engine, workflows.PrepayID(s.Tenant, "book-0001"))
		record(t, "prepay_"+s.sim.Name(), historyOf(t, s.engine, workflows.PrepayID(s.Tenant, "book-0001")))
	})
}

// A callback that is lost is made up for by asking; when it comes after all it is the same event.
func TestTheSameFactByCallbackQueryAndReplayGivesTheSameRow(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		work(t, s.House, s.engine)
		s.announce("by-callback")
		require.NoError(t, s.sim.Pay("by-callback"))
		requireState(t, s.House, "by-callback", payment.Paid)

		s.announce("by-query1")
		s.sim.Core().Misbehave(simulator.Faults{Withhold: true})
		require.NoError(t, s.sim.Pay("by-query1"))
		s.Clock.Pass(11 * time.Minute)
		requireState(t, s.House, "by-query1", payment.Paid)
		asked := s.credits("by-query1")
		require.Len(t, asked, 1)
		s.Clock.Pass(-11 * time.Minute)
		s.sim.Core().Flush()
		s.requireAcknowledged()
		require.Len(t, s.credits("by-query1"), 1, "what the callback says is what was asked for")
		require.Equal(t, asked[0].ID, s.credits("by-query1")[0].ID)
		_, err := s.Entry.Replay(t.Context(), s.Tenant, asked[0].ID)
		require.NoError(t, err)
		require.Equal(t, asked, s.credits("by-query1"))

		// But for its own numbers and times, it left the rows of the callback: its events, and its journals with every line.
		told, row := s.credits("by-callback")[0], asked[0]
		require.Equal(t, len(told.Key), len(row.Key))
		s.requireFees(2)
		left := s.left("by-callback")
		require.Equal(t, left, s.left("by-query1"))
		if s.sim.Name() == "stripe" {
			require.Equal(t, []string{
				"PAY_FEE DONE FEE_BOOKED 317 CNY payer ? fee ? payment_fee fees 317", "PAY_FEE DONE FEE_BOOKED 317 CNY payer ? fee ? payment_fee merchant -317",
			}, left[:2])
			require.Len(t, left, 4)
		} else {
			require.Len(t, left, 2, "the channel tells no fee")
		}
		require.Equal(t, 2*9900, s.credited())
		s.RequireInvariants(t)
	})
}

func TestAnAnnouncementWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		work(t, s.House, s.engine)
		s.sim.Core().Misbehave(simulator.Faults{Drop: 2, Only: "prepay"})
		status, answer := s.call(http.MethodPost, "/v1/payments", s.order("dropped-1"))
		for status == http.StatusCreated && answer["prepay_state"] == payment.PrepayPending {
			_, answer = s.call(http.MethodPost, "/v1/payments", s.order("dropped-1"))
		}
		require.Equal(t, payment.PrepayReady, answer["prepay_state"], answer)
		require.Equal(t, "OPEN", s.known("dropped-1").State)
		for _, call := range s.sim.Core().Calls("prepay") {
			require.Equal(t, "dropped-1", call.Number, "the number never changes")
		}
	})
}

func TestAnOrderIsClosedAtTheChannelBeforeItIsClosedHere(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		s.announce("by-merchant")
		s.sim.Core().Misbehave(simulator.Faults{Refuse: 1, Only: "query"})
		status, answer := s.call(http.MethodPost, "/v1/payments/by-merchant/close", nil)
		require.Equal(t, http.StatusAccepted, status, answer)
		require.Equal(t, "PENDING", answer["state"])
		require.NotEmpty(t, answer["close_requested_at"])
		requireState(t, s.House, "by-merchant", payment.Closed)
		if s.sim.Name() == "alipay" {
			// It knows a trade only once its code was scanned, and the code stays good for its time: money that comes so is late.
			require.NoError(t, s.sim.Pay("by-merchant"))
			require.Eventually(t, func() bool {
				return len(s.credits("by-merchant")) == 1 && s.credits("by-merchant")[0].State == payment.Done
			}, 30*time.Second, 20*time.Millisecond)
			require.Equal(t, payment.LatePayment, *s.credits("by-merchant")[0].Outcome)
			require.Equal(t, 9900, s.Balance(t, "suspense"))
		} else {
			require.Equal(t, "CLOSED", s.known("by-merchant").State)
			require.Error(t, s.sim.Pay("by-merchant"), "nobody can pay it any more")
		}
		status, _ = s.call(http.MethodPost, "/v1/payments/by-merchant/close", nil)
		require.Equal(t, http.StatusOK, status)
		requireClosed(t, s.engine, workflows.InquiryID(s.Tenant, "by-merchant"))
		record(t, "inquiry_"+s.sim.Name(), historyOf(t, s.engine, workflows.InquiryID(s.Tenant, "by-merchant")))

		s.announce("by-time")
		s.Clock.Pass(payment.DefaultExpiry + time.Minute)
		requireState(t, s.House, "by-time", payment.Closed)
		if s.sim.Name() != "alipay" {
			require.Equal(t, "CLOSED", s.known("by-time").State)
		}
		s.Clock.Pass(-payment.DefaultExpiry - time.Minute)
		require.Zero(t, s.Balance(t, "merchant"))
		s.RequireInvariants(t)
	})
}

func (s *shop) work() { work(s.t, s.House, s.engine) }

func TestAnOrderThatIsPaidWhileItIsToBeClosedIsPaid(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		s.announce("paid-anyway")
		s.sim.Core().Misbehave(simulator.Faults{Withhold: true})
		require.NoError(t, s.sim.Pay("paid-anyway"))
		status, _ := s.call(http.MethodPost, "/v1/payments/paid-anyway/close", nil)
		require.Equal(t, http.StatusAccepted, status)
		requireState(t, s.House, "paid-anyway", payment.Paid)
		status, answer := s.call(http.MethodPost, "/v1/payments/paid-anyway/close", nil)
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "already_paid", answer["code"])
		s.sim.Core().Flush()
		s.requireAcknowledged()
		require.Equal(t, 9900, s.credited())
		s.RequireInvariants(t)
	})
}

func TestARefusedAnnouncementCanBeTriedAgain(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		request := s.order("odd method")
		request["out_trade_no"], request["method"] = "odd-method", "telepathy"
		for range 2 {
			status, answer := s.call(http.MethodPost, "/v1/payments", request)
			require.Equal(t, http.StatusUnprocessableEntity, status, answer)
			require.Equal(t, "channel_refused", answer["code"])
		}
		_, answer := s.call(http.MethodGet, "/v1/payments/odd-method", nil)
		require.Equal(t, "PENDING", answer["state"])
		require.Equal(t, payment.PrepayFailed, answer["prepay_state"])
		// The channel never had it, so it can be closed.
		status, _ := s.call(http.MethodPost, "/v1/payments/odd-method/close", nil)
		require.Equal(t, http.StatusAccepted, status)
		requireState(t, s.House, "odd-method", payment.Closed)
	})
}

// Notices under the old key, the new one and a wrong one come while the account's configuration is replaced again and again.
func TestKeysAreRotatedUnderLoad(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		var watching sync.WaitGroup
		defer watching.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		watching.Go(func() { s.Accounts.Watch(ctx, s.Log) })
		config, err := s.Accounts.Config(t.Context(), s.sim.Name(), s.acct)
		require.NoError(t, err)
		watching.Go(func() {
			for ctx.Err() == nil {
				if err := s.Accounts.Replace(ctx, s.Tenant, s.sim.Name(), s.acct, config); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
		names := []string{"rotate-01", "rotate-02", "rotate-03", "rotate-04", "rotate-05", "rotate-06"}
		for _, name := range names {
			s.announce(name)
		}
		for i, with := range []string{"", "old", "", "old", "", "old"} {
			if s.sim.Name() == "alipay" {
				with = "" // it has one key at a time
			}
			s.sim.Core().Misbehave(simulator.Faults{SignWith: with, NoticeTimes: 5})
			require.NoError(t, s.sim.Pay(names[i]))
		}
		s.sim.Core().Wait()
		for _, name := range names {
			requireState(t, s.House, name, payment.Paid)
			require.Len(t, s.credits(name), 1)
		}
		s.requireAcknowledged()
		require.Equal(t, len(names)*9900, s.credited())

		// What was never signed by the channel is refused, and leaves nothing behind.
		s.announce("rotate-07")
		s.sim.Core().Wait()
		s.sim.Core().Misbehave(simulator.Faults{SignWith: "wrong"})
		before := len(s.sim.Core().Sent())
		require.NoError(t, s.sim.Pay("rotate-07"))
		s.sim.Core().Wait()
		require.NotEmpty(t, s.sim.Core().Sent()[before:])
		for _, sent := range s.sim.Core().Sent()[before:] {
			require.Equal(t, 4, sent.Status/100, sent.Answer)
		}
		require.Equal(t, payment.Pending, s.State(t, "rotate-07"))
		require.Empty(t, s.credits("rotate-07"))
		s.RequireInvariants(t)
	})
}
