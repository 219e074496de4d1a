package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simalipay "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	simstripe "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	simwechatpay "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/workflows"
)

// sold announces an order of 9900 and has it paid and booked. Stripe is not heard about its fee, which would leave less than the
// whole to refund.
func (s *shop) sold(number string) {
	s.t.Helper()
	if sim, is := s.sim.(*simstripe.Simulator); is {
		sim.Quirk(simstripe.Quirks{Unheard: []string{"charge.updated"}})
	}
	s.announce(number)
	require.NoError(s.t, s.sim.Pay(number))
	requireState(s.t, s.House, number, payment.Paid)
}

// refund asks for a refund over HTTP.
func (s *shop) refund(order, number string, amount int) (status int, answer map[string]any) {
	s.t.Helper()
	return s.call(http.MethodPost, "/v1/payments/"+order+"/refunds", map[string]any{"out_refund_no": number, "amount": amount, "reason": "torn"})
}

func (s *shop) refunding(order, number string, amount int) {
	s.t.Helper()
	status, answer := s.refund(order, number, amount)
	require.Equal(s.t, http.StatusCreated, status, answer)
}

// requireRefund waits until a refund is in a state, and holds the books to their rules.
func (s *shop) requireRefund(number string, want refund.State) (r refund.Refund) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var err error
		r, err = refund.Find(s.t.Context(), s.Engine, s.Tenant, number)
		return err == nil && r.State == want
	}, 90*time.Second, 20*time.Millisecond, "refund %s never became %s: %+v", number, want, r)
	return r
}

// requireBooks holds what the merchant has (with what the channel keeps as fees), held and refunded amount, and every invariant.
func (s *shop) requireBooks(order string, credited, held, refunded int) {
	s.t.Helper()
	require.Equal(s.t, credited, s.credited())
	require.Equal(s.t, held, s.Count(s.t, "SELECT coalesce(sum(held), 0) FROM ledger_accounts WHERE tenant_id = $1", s.Tenant))
	require.Equal(s.t, refunded, s.Count(s.t, "SELECT refunded_amount FROM payments WHERE tenant_id = $1 AND out_trade_no = $2", s.Tenant, order))
	s.RequireInvariants(s.t)
}

// called lists the numbers under which the channel was called for refunds, each once.
func (s *shop) called() (list []string) {
	for _, call := range s.sim.Core().Calls("refund") {
		if !slices.Contains(list, call.Number) {
			list = append(list, call.Number)
		}
	}
	return list
}

func (s *shop) recordRefund(name, number string) {
	s.t.Helper()
	id := workflows.RefundID(s.Tenant, number)
	requireClosed(s.t, s.engine, id)
	record(s.t, name, historyOf(s.t, s.engine, id))
}

func TestARefundAtEachAcquirer(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		s.sold("book-0001")
		s.sim.Core().Misbehave(simulator.Faults{NoticeTimes: 3})
		s.refunding("book-0001", "refund-1", 6000)
		r := s.requireRefund("refund-1", refund.Succeeded)
		require.NotEmpty(t, r.RefundID)
		s.recordRefund("refund_"+s.sim.Name(), "refund-1")
		status, again := s.refund("book-0001", "refund-1", 6000)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "SUCCEEDED", again["state"])
		status, answer := s.refund("book-0001", "refund-1", 5999)
		require.Equal(t, http.StatusUnprocessableEntity, status, answer)
		status, answer = s.refund("book-0001", "refund-2", 3901)
		require.Equal(t, http.StatusConflict, status, answer)
		require.Equal(t, "refund_exceeds_captured", answer["code"])
		require.Len(t, s.sim.Core().Calls("refund"), 1, "nothing else was sent")

		s.refunding("book-0001", "refund-2", 3900)
		s.requireRefund("refund-2", refund.Succeeded)
		s.requireAcknowledged()
		s.requireBooks("book-0001", 0, 0, 9900)
		require.Equal(t, int64(9900), s.known("book-0001").Refunded)
		require.Equal(t, payment.Paid, s.State(t, "book-0001"))
		_, paid := s.call(http.MethodGet, "/v1/payments/book-0001", nil)
		require.Equal(t, "FULL", paid["refund_state"])
		require.Eventually(t, func() bool {
			return s.Count(t, "SELECT count(*) FROM channel_events WHERE state IN ('RECEIVED', 'PARKED')") == 0
		}, 30*time.Second, 50*time.Millisecond, "every notice has come to an end")
	})
}

// Whatever the channel does with an answer, there is one refund under one number.
func TestAnswersOfARefundThatAreLost(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		n := 0
		for name, faults := range map[string]simulator.Faults{
			"done, and the answer is dropped":  {Drop: 1, Only: "refund"},
			"not done, with an error":          {Refuse: 1, Only: "refund"},
			"done, and the answer is forged":   {Garble: 1, Only: "refund"},
			"dropped, and then not even asked": {Drop: 2},
		} {
			n++
			order, number := fmt.Sprint("lost-000", n), fmt.Sprint("lost-r", n)
			s.sim.Core().Misbehave(simulator.Faults{})
			s.sold(order)
			s.sim.Core().Misbehave(faults)
			s.refunding(order, number, 6000)
			s.requireRefund(number, refund.Succeeded)
			require.Contains(t, s.called(), number, name)
			require.Len(t, s.called(), n, "one number each: %s", name)
			require.Equal(t, int64(6000), s.known(order).Refunded, name)
		}
		s.RequireInvariants(t)
	})
}

func TestManyRefundsAtOnceOverHTTP(t *testing.T) {
	s := openShop(t, simwechatpay.New())
	s.work()
	s.sold("book-0001")
	var all sync.WaitGroup
	var won atomic.Int64
	for i := range 20 {
		all.Go(func() {
			status, answer := s.refund("book-0001", fmt.Sprint("r", i), 990)
			switch status {
			case http.StatusCreated:
				won.Add(1)
			case http.StatusConflict:
				if answer["code"] != "refund_exceeds_captured" {
					t.Error(answer)
				}
			default:
				t.Error(status, answer)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(10), won.Load())
	require.Eventually(t, func() bool {
		return s.Count(t, "SELECT count(*) FROM refunds WHERE state = 'SUCCEEDED'") == 10
	}, 60*time.Second, 50*time.Millisecond)
	s.requireBooks("book-0001", 0, 0, 9900)
	require.Equal(t, int64(9900), s.known("book-0001").Refunded)
}

func TestARefundThatTakesItsTimeEndsByItsNotice(t *testing.T) {
	for state, want := range map[string]refund.State{"SUCCEEDED": refund.Succeeded, "FAILED": refund.Failed} {
		for _, sim := range []simulator.Simulator{simwechatpay.New(), simstripe.New()} { // Alipay forgets what failed, and tells nobody
			t.Run(sim.Name()+" "+state, func(t *testing.T) {
				s := openShop(t, sim)
				s.work()
				s.sold("book-0001")
				s.sim.Core().Misbehave(simulator.Faults{Hold: true})
				s.refunding("book-0001", "refund-1", 6000)
				require.Eventually(t, func() bool { return len(s.sim.Core().Calls("refund")) == 1 }, 30*time.Second, 10*time.Millisecond)
				s.requireRefund("refund-1", refund.Pending)
				s.requireBooks("book-0001", 9900, 6000, 0)
				require.NoError(t, s.sim.SettleRefund("refund-1", state))
				s.requireRefund("refund-1", want)
				s.requireAcknowledged()
				s.recordRefund("refund_notice_"+strings.ToLower(string(want))+"_"+sim.Name(), "refund-1")
				if want == refund.Failed {
					s.requireBooks("book-0001", 9900, 0, 0)
					s.sim.Core().Misbehave(simulator.Faults{})
					s.refunding("book-0001", "refund-2", 9900)
					s.requireRefund("refund-2", refund.Succeeded)
				}
				s.RequireInvariants(t)
			})
		}
	}
}

func TestARefundThatIsStuckAtWeChatPayWaitsForAPerson(t *testing.T) {
	for state, want := range map[string]refund.State{"SUCCEEDED": refund.Succeeded, "FAILED": refund.Failed} {
		t.Run(state, func(t *testing.T) {
			s := openShop(t, simwechatpay.New())
			s.work()
			s.sold("book-0001")
			s.sim.Core().Misbehave(simulator.Faults{Hold: true})
			s.refunding("book-0001", "refund-1", 6000)
			require.Eventually(t, func() bool { return len(s.sim.Core().Calls("refund")) == 1 }, 30*time.Second, 10*time.Millisecond)
			require.NoError(t, s.sim.SettleRefund("refund-1", "ABNORMAL"))
			require.True(t, s.requireRefund("refund-1", refund.Unknown).Abnormal)
			s.requireBooks("book-0001", 9900, 6000, 0)
			require.NoError(t, s.sim.SettleRefund("refund-1", state))
			require.False(t, s.requireRefund("refund-1", want).Abnormal)
			s.recordRefund("refund_abnormal_"+strings.ToLower(state), "refund-1")
			if want == refund.Succeeded {
				s.requireBooks("book-0001", 3900, 0, 6000)
			} else {
				s.requireBooks("book-0001", 9900, 0, 0)
			}
		})
	}
}

// Stripe's banks return money days after the refund has succeeded.
func TestARefundThatFailsAfterItSucceededAtStripe(t *testing.T) {
	for name, faults := range map[string]simulator.Faults{
		"told in order":              {},
		"told the other way round":   {Withhold: true, Reverse: true},
		"told three times each":      {NoticeTimes: 3},
		"told in order, much later":  {Withhold: true},
		"never told, but asked once": {Withhold: true, NoticeTimes: 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, simstripe.New())
			s.work()
			s.sold("book-0001")
			s.sim.Core().Wait()
			s.sim.Core().Misbehave(faults)
			s.refunding("book-0001", "refund-1", 6000)
			s.requireRefund("refund-1", refund.Succeeded)
			s.requireBooks("book-0001", 3900, 0, 6000)
			require.NoError(t, s.sim.SettleRefund("refund-1", "FAILED"))
			s.sim.Core().Flush()
			failed := s.requireRefund("refund-1", refund.Failed)
			require.NotNil(t, failed.ReversalKey)
			s.requireAcknowledged()
			s.requireBooks("book-0001", 9900, 0, 0)
			s.sim.Core().Misbehave(simulator.Faults{})
			s.refunding("book-0001", "refund-2", 9900)
			s.requireRefund("refund-2", refund.Succeeded)
			s.requireBooks("book-0001", 0, 0, 9900)
			own := workflows.EventID(s.account().ID, "stripe:"+failed.RefundID+":REFUND_FAILED")
			requireClosed(t, s.engine, own)
			if name == "told in order" {
				record(t, "event_refund_reversed", historyOf(t, s.engine, own))
			}
		})
	}
}

func (s *shop) account() tenant.Account {
	s.t.Helper()
	acct, err := s.Accounts.Find(s.t.Context(), s.sim.Name(), s.acct)
	require.NoError(s.t, err)
	return acct
}

// console refunds as the merchant does in the channel's own console: paylatch hears of it by the channel alone.
func (s *shop) console(order, number string, amount int64) {
	s.t.Helper()
	acct := s.account()
	notify, err := acct.CallbackURL(s.url)
	require.NoError(s.t, err)
	_, err = acct.Account.(channel.Acquirer).Refund(s.t.Context(), channel.Refund{
		OutRefundNo: number, TransactionID: s.known(order).TransactionID, OutTradeNo: order, Amount: amount, Total: 9900, Currency: "CNY", NotifyURL: notify,
	})
	require.NoError(s.t, err)
}

func TestARefundMadeInTheConsoleOfEachAcquirer(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		s.sold("book-0001")
		s.console("book-0001", "console-1", 4000)
		r := s.requireRefund("console-1", refund.Succeeded)
		require.Equal(t, refund.ByChannel, r.Origin)
		require.Equal(t, 4000, s.Count(t, "SELECT refunded_amount FROM payments WHERE tenant_id = $1", s.Tenant))
		status, answer := s.refund("book-0001", "refund-1", 5901)
		require.Equal(t, http.StatusConflict, status, answer)
		s.refunding("book-0001", "refund-1", 5900)
		s.requireRefund("refund-1", refund.Succeeded)
		s.requireAcknowledged()
		s.RequireInvariants(t)
	})
}

// Ours is reserved and its call has not been made when somebody refunds everything in the console.
func TestAConsoleRefundBeyondTheCeilingIsAReceivable(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		stop := work(t, s.House, s.engine)
		s.sold("book-0001")
		stop()
		s.refunding("book-0001", "refund-1", 6000)
		s.console("book-0001", "console-1", 9900)
		s.work()
		s.requireRefund("console-1", refund.Succeeded)
		failed := s.requireRefund("refund-1", refund.Failed)
		require.NotEmpty(t, failed.Failure, "the channel has nothing left to give back")
		// Where the console's was booked while ours was still reserved, 6000 of it were a receivable: what ours has set free pays that.
		r := s.requireRefund("console-1", refund.Succeeded)
		require.Contains(t, []int64{0, 6000}, r.Receivable)
		require.Zero(t, r.Owed())
		require.Zero(t, r.Excess)
		require.Equal(t, int(r.Receivable), s.Count(t, "SELECT coalesce(sum(amount), 0) FROM settlements WHERE tenant_id = $1 AND how = 'netted'", s.Tenant))
		require.Zero(t, s.Balance(t, "receivable"))
		require.Equal(t, int64(9900), s.known("book-0001").Refunded)
		require.Zero(t, s.Count(t, "SELECT coalesce(sum(held), 0) FROM ledger_accounts WHERE tenant_id = $1", s.Tenant))
		s.RequireInvariants(t)
	})
}

// A late payment goes back by itself, once the channel says that it is paid.
func TestALatePaymentGoesBackByItself(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		s.work()
		require.NoError(t, tenant.SetPolicy(t.Context(), s.Engine, s.Tenant, tenant.Policy{SuspenseRefund: tenant.Automatic}))
		s.announce("book-0001")
		// As if the channel had said that nobody can pay it any more.
		id := s.Count(t, "SELECT id FROM payments WHERE tenant_id = $1", s.Tenant)
		ready := payment.PrepayReady
		closed, err := s.Books.Close(t.Context(), int64(id), "merchant", &ready)
		require.NoError(t, err)
		require.Equal(t, payment.Closed, closed)
		require.NoError(t, s.sim.Pay("book-0001"))
		require.Eventually(t, func() bool {
			return s.Count(t, "SELECT count(*) FROM refunds WHERE tenant_id = $1 AND origin = 'suspense' AND state = 'SUCCEEDED'", s.Tenant) == 1
		}, 60*time.Second, 50*time.Millisecond)
		require.Zero(t, s.Balance(t, "suspense"))
		require.Equal(t, int64(9900), s.known("book-0001").Refunded)
		s.requireBooks("book-0001", 0, 0, 0)
		require.Equal(t, payment.Closed, s.State(t, "book-0001"))
		require.NotEmpty(t, s.sim.Core().Calls("query"), "the channel was asked first")
		list, err := refund.List(t.Context(), s.Engine, s.Tenant, refund.Filter{Limit: 10})
		require.NoError(t, err)
		s.recordRefund("refund_suspense_"+s.sim.Name(), list[0].OutRefundNo)
	})
}

// The channel does it and the process dies before it can write that down; an operator presses retry.
func TestAWorkerKilledWhileTheChannelRefunds(t *testing.T) {
	eachAcquirer(t, func(t *testing.T, s *shop) {
		stop := work(t, s.House, s.engine)
		s.sold("book-0001")
		stop()
		s.sim.Core().Misbehave(simulator.Faults{Delay: 2 * time.Second, Withhold: true})
		s.refunding("book-0001", "refund-1", 6000)
		ended, kill := spawn(t, s.House, workerThatDies+":never", "")
		require.Eventually(t, func() bool { return len(s.sim.Core().Calls("refund")) == 1 }, 40*time.Second, 5*time.Millisecond)
		kill()
		requireKilled(t, ended)
		require.Eventually(t, func() bool { return s.known("book-0001").Refunded == 6000 }, 30*time.Second, 10*time.Millisecond, "the channel has done it")
		s.sim.Core().Misbehave(simulator.Faults{Withhold: true})
		s.requireBooks("book-0001", 9900, 6000, 0)

		status, answer := s.call(http.MethodPost, "/v1/refunds/refund-1/retry", nil)
		require.Equal(t, http.StatusOK, status, answer)
		s.work()
		s.requireRefund("refund-1", refund.Succeeded)
		require.Equal(t, []string{"refund-1"}, s.called(), "the channel saw one number")
		require.Equal(t, int64(6000), s.known("book-0001").Refunded)
		s.sim.Core().Flush()
		s.requireAcknowledged()
		require.Equal(t, 6000, s.Count(t, "SELECT refunded_amount FROM payments WHERE tenant_id = $1", s.Tenant))
		s.recordRefund("refund_worker_killed_"+s.sim.Name(), "refund-1")
		s.RequireInvariants(t)
	})
}

// The worker is killed after the effect of each step and before it can report; another one brings the refund to the same end.
func TestAWorkerKilledAfterEachStepOfARefund(t *testing.T) {
	failing := func(s *shop) {
		require.NoError(s.t, s.sim.SettleRefund("refund-1", "FAILED"))
	}
	for _, story := range []struct {
		step string
		sim  simulator.Simulator
		// faults are in place when the refund is asked for; then happens once the channel was called.
		faults simulator.Faults
		then   func(s *shop)
		want   refund.State
	}{
		{workflows.RefundLookActivity, simwechatpay.New(), simulator.Faults{}, nil, refund.Succeeded},
		{workflows.RefundAdvanceActivity, simwechatpay.New(), simulator.Faults{}, nil, refund.Succeeded},
		{workflows.RefundAdvanceActivity, simalipay.New(), simulator.Faults{}, nil, refund.Succeeded},
		{workflows.RefundAdvanceActivity, simstripe.New(), simulator.Faults{}, nil, refund.Succeeded},
		{workflows.RefundAdvanceActivity, simwechatpay.New(), simulator.Faults{Hold: true, Withhold: true}, failing, refund.Failed},
		{workflows.ApplyEventActivity, simalipay.New(), simulator.Faults{}, nil, refund.Succeeded},
		{workflows.ApplyEventActivity, simwechatpay.New(), simulator.Faults{Hold: true}, failing, refund.Failed},
		{workflows.ApplyEventActivity, simstripe.New(), simulator.Faults{Hold: true}, failing, refund.Failed},
	} {
		t.Run(fmt.Sprintf("%s at %s, %s", story.step, story.sim.Name(), story.want), func(t *testing.T) {
			s := openShop(t, story.sim)
			stop := work(t, s.House, s.engine)
			s.sold("book-0001")
			stop()
			s.sim.Core().Wait()
			s.sim.Core().Misbehave(story.faults)
			s.refunding("book-0001", "refund-1", 6000)
			ended := startChild(t, s.House, workerThatDies+":"+story.step, "")
			if story.then != nil {
				require.Eventually(t, func() bool { return len(s.sim.Core().Calls("refund")) == 1 }, 40*time.Second, 5*time.Millisecond)
				story.then(s)
			}
			requireKilled(t, ended)
			s.work()
			s.requireRefund("refund-1", story.want)
			s.sim.Core().Flush()
			s.requireAcknowledged()
			require.Equal(t, []string{"refund-1"}, s.called())
			refunded := map[refund.State]int{refund.Succeeded: 6000, refund.Failed: 0}[story.want]
			require.Equal(t, int64(refunded), s.known("book-0001").Refunded)
			require.Equal(t, refunded, s.Count(t, "SELECT refunded_amount FROM payments WHERE tenant_id = $1", s.Tenant))
			require.Zero(t, s.Count(t, "SELECT coalesce(sum(held), 0) FROM ledger_accounts WHERE tenant_id = $1", s.Tenant))
			s.RequireInvariants(t)
		})
	}
}

// The steps that come after a refund's end, or beside its flow: each is killed too.
func TestAWorkerKilledAfterEachStepThatFollowsARefund(t *testing.T) {
	for _, step := range []string{workflows.ApplyEventActivity, workflows.AskAboutActivity} {
		t.Run("a failure after success, "+step, func(t *testing.T) {
			s := openShop(t, simstripe.New())
			stop := work(t, s.House, s.engine)
			s.sold("book-0001")
			s.refunding("book-0001", "refund-1", 6000)
			s.requireRefund("refund-1", refund.Succeeded)
			s.sim.Core().Wait()
			stop()
			require.NoError(t, s.sim.SettleRefund("refund-1", "FAILED"))
			requireKilled(t, startChild(t, s.House, workerThatDies+":"+step, ""))
			s.work()
			s.requireRefund("refund-1", refund.Failed)
			s.requireBooks("book-0001", 9900, 0, 0)
		})
		t.Run("a hint of a console refund, "+step, func(t *testing.T) {
			const number = "console-1"
			s := openShop(t, simalipay.New())
			stop := work(t, s.House, s.engine)
			s.sold("book-0001")
			stop()
			s.console("book-0001", number, 4000)
			s.sim.Core().Wait()
			requireKilled(t, startChild(t, s.House, workerThatDies+":"+step, ""))
			s.work()
			s.requireRefund(number, refund.Succeeded)
			require.Eventually(t, func() bool {
				return s.Count(t, "SELECT count(*) FROM channel_events WHERE state IN ('RECEIVED', 'PARKED')") == 0
			}, 60*time.Second, 50*time.Millisecond)
			require.Equal(t, 4000, s.Count(t, "SELECT refunded_amount FROM payments WHERE tenant_id = $1", s.Tenant))
			s.RequireInvariants(t)
		})
	}
	// The call never comes back, its worker is killed, and so is the one that wanted to write that down.
	t.Run("an unknown outcome, "+workflows.RefundUnknownActivity, func(t *testing.T) {
		s := openShop(t, simwechatpay.New())
		stop := work(t, s.House, s.engine)
		s.sold("book-0001")
		stop()
		s.sim.Core().Misbehave(simulator.Faults{Withhold: true})
		s.refunding("book-0001", "refund-1", 6000)
		requireKilled(t, startChild(t, s.House, workerThatDies+":"+workflows.RefundAdvanceActivity, ""))
		requireKilled(t, startChild(t, s.House, workerThatDies+":"+workflows.RefundUnknownActivity, ""))
		s.requireRefund("refund-1", refund.Unknown)
		s.work()
		s.requireRefund("refund-1", refund.Succeeded)
		require.Equal(t, []string{"refund-1"}, s.called())
		s.requireBooks("book-0001", 3900, 0, 6000)
		s.recordRefund("refund_unknown", "refund-1")
	})
}

func TestARefundWhoseFlowWasTerminatedIsBroughtToItsEnd(t *testing.T) {
	s := openShop(t, simwechatpay.New())
	stop := work(t, s.House, s.engine)
	s.sold("book-0001")
	stop()
	s.refunding("book-0001", "refund-1", 6000)
	require.NoError(t, s.engine.TerminateWorkflow(t.Context(), workflows.RefundID(s.Tenant, "refund-1"), "", "by mistake"))
	s.Clock.Pass(2 * time.Minute)
	s.work()
	s.requireRefund("refund-1", refund.Succeeded)
	s.Clock.Pass(-2 * time.Minute)
	s.requireBooks("book-0001", 3900, 0, 6000)
}
