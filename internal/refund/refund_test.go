package refund_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// story is a house with an account at the bank. Its flows are played by hand: run carries a refund on as its flow would.
type story struct {
	*testhouse.House
	bank   *bank
	at     tenant.Account
	driver *testhouse.Deliveries
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{bank: newBank(), driver: &testhouse.Deliveries{}}
	s.House = testhouse.Through(t, testhouse.NewDatabase(t), s.driver, channel.NewSet(standard.Channel{}, s.bank))
	require.NoError(t, s.Accounts.Add(t.Context(), s.Tenant, bankName, "b-"+s.Tenant, []byte("{}")))
	var err error
	s.at, err = s.Accounts.Find(t.Context(), bankName, "b-"+s.Tenant)
	require.NoError(t, err)
	return s
}

// tell reports events of the bank and books what they ask for, as the flows would.
func (s *story) tell(t *testing.T, events ...channel.Event) []payment.Reported {
	t.Helper()
	results, err := s.Entry.Report(t.Context(), s.at, bankBody(events...), s.Clock.Now())
	require.NoError(t, err)
	s.settle(t)
	return results
}

// settle books everything that was delivered, and asks the bank where an event wants it.
func (s *story) settle(t *testing.T) {
	t.Helper()
	for _, d := range s.driver.Take() {
		s.book(t, d.EventID)
	}
}

func (s *story) book(t *testing.T, eventID int64) payment.Applied {
	t.Helper()
	for {
		applied, err := s.Books.Apply(t.Context(), eventID)
		require.NoError(t, err)
		if applied.Ask == "" {
			return applied
		}
		answers, err := s.Refunds.AskAbout(t.Context(), eventID)
		require.NoError(t, err)
		for _, id := range answers {
			s.book(t, id)
		}
	}
}

// paid is an order that is paid by a transaction of the bank.
func (s *story) paid(t *testing.T, order string, amount int64) {
	t.Helper()
	s.Create(t, testhouse.Order(order, amount))
	s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx-" + order, TransactionID: "tx-" + order, OutTradeNo: order, Amount: amount, Currency: "CNY"})
	require.Equal(t, payment.Paid, s.State(t, order))
}

func (s *story) ask(order, number string, amount int64) (refund.Refund, error) {
	r, _, err := s.Refunds.Create(context.Background(), refund.Request{TenantID: s.Tenant, OutTradeNo: order, OutRefundNo: number, Amount: amount, Reason: "as agreed"})
	return r, err
}

func (s *story) begin(t *testing.T, order, number string, amount int64) refund.Refund {
	t.Helper()
	r, err := s.ask(order, number, amount)
	require.NoError(t, err)
	return r
}

// advance carries a refund on by one step of its flow.
func (s *story) advance(t *testing.T, number string) refund.State {
	t.Helper()
	r := s.get(t, number)
	p, err := s.Refunds.Advance(t.Context(), r.ID, time.Minute)
	require.NoError(t, err)
	for _, id := range p.Events {
		s.book(t, id)
	}
	return s.get(t, number).State
}

func (s *story) get(t *testing.T, number string) refund.Refund {
	t.Helper()
	r, err := refund.Find(t.Context(), s.Engine, s.Tenant, number)
	require.NoError(t, err)
	return r
}

// stands is what the books say: the merchant's balance and hold, the receivable, and the payment's numbers.
func (s *story) stands(t *testing.T, order string) string {
	t.Helper()
	var text string
	require.NoError(t, s.Owner.QueryRow(t.Context(), `
SELECT format('merchant %s held %s, receivable %s; pending %s refunded %s %s',
       coalesce((SELECT balance FROM ledger_accounts WHERE tenant_id = $1 AND code = 'merchant' AND currency = 'CNY'), 0),
       coalesce((SELECT held FROM ledger_accounts WHERE tenant_id = $1 AND code = 'merchant' AND currency = 'CNY'), 0),
       coalesce((SELECT balance FROM ledger_accounts WHERE tenant_id = $1 AND code = 'receivable' AND currency = 'CNY'), 0),
       refund_pending, refunded_amount, refund_state)
  FROM payments WHERE tenant_id = $1 AND out_trade_no = $2`, s.Tenant, order).Scan(&text))
	return text
}

func TestARefundIsReservedHeldCalledAndBookedOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	fee := int64(1)
	s.bank.fee = &fee
	r := s.begin(t, "o", "r1", 60)
	require.Equal(t, refund.Pending, r.State)
	require.Equal(t, "merchant 100 held 60, receivable 0; pending 60 refunded 0 NONE", s.stands(t, "o"))
	require.Len(t, s.driver.TakeRefunds(), 1)
	require.Empty(t, s.bank.heard(), "the number is committed before the bank hears of it")

	require.Equal(t, refund.Succeeded, s.advance(t, "r1"))
	require.Equal(t, refund.Succeeded, s.advance(t, "r1"), "an ended refund calls nobody")
	require.Equal(t, []string{"refund r1"}, s.bank.heard())
	require.Equal(t, "merchant 41 held 0, receivable 0; pending 0 refunded 60 PARTIAL", s.stands(t, "o"), "the fee came back in the channel's rounding")
	require.Equal(t, payment.Paid, s.State(t, "o"), "the payment's state never moves back")

	// The notice of the same fact, and the merchant's repeat, change nothing.
	require.True(t, s.tell(t, refundEvent(channel.RefundSuccess, "r1", "tx-o", 60))[0].Duplicate)
	again := s.begin(t, "o", "r1", 60)
	require.Equal(t, r.ID, again.ID)
	require.Equal(t, refund.Succeeded, again.State)
	require.Empty(t, s.driver.TakeRefunds())

	s.begin(t, "o", "r2", 40)
	s.advance(t, "r2")
	require.Equal(t, "merchant 2 held 0, receivable 0; pending 0 refunded 100 FULL", s.stands(t, "o"))
	require.Equal(t, -2, s.Balance(t, "fees"))
	s.RequireInvariants(t)
}

func TestTheSameNumberForAnotherRefundIsRefusedAndNothingIsSent(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.paid(t, "o2", 100)
	s.begin(t, "o", "r", 60)
	s.driver.TakeRefunds()
	before := s.stands(t, "o")
	for _, c := range []struct {
		order  string
		amount int64
	}{{"o", 59}, {"o", 61}, {"o2", 60}} {
		_, err := s.ask(c.order, "r", c.amount)
		require.ErrorIs(t, err, refund.ErrNumberReused)
	}
	require.Equal(t, before, s.stands(t, "o"))
	require.Empty(t, s.driver.TakeRefunds())
	require.Empty(t, s.bank.heard())
}

func TestWhatCannotBeRefunded(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	_, err := s.ask("nobody", "r", 1)
	require.ErrorIs(t, err, refund.ErrPaymentNotFound)
	s.Create(t, testhouse.Order("unpaid", 100))
	_, err = s.ask("unpaid", "r", 1)
	require.ErrorIs(t, err, refund.ErrNotPaid)
	s.paid(t, "o", 100)
	for _, amount := range []int64{101, 1 << 62} {
		_, err = s.ask("o", "r", amount)
		require.ErrorIs(t, err, refund.ErrExceeds)
	}
	require.Zero(t, s.Count(t, "SELECT count(*) FROM refunds"))
	require.Equal(t, "merchant 100 held 0, receivable 0; pending 0 refunded 0 NONE", s.stands(t, "o"))
}

// Pending counts; what fails is free again.
func TestManyAtOnceNeverPassWhatWasCaptured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		amounts func(i int) int64
		n       int
		wins    int
	}{
		"2 of 60 on 100":      {func(int) int64 { return 60 }, 2, 1},
		"20 of 10 on 100":     {func(int) int64 { return 10 }, 20, 10},
		"50 of anything":      {func(int) int64 { return 1 + rand.Int64N(40) }, 50, -1},
		"30 under one number": {func(int) int64 { return 60 }, 30, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.paid(t, "o", 100)
			s.bank.hold = true
			var all sync.WaitGroup
			errs := make([]error, c.n)
			numbers := make([]string, c.n)
			for i := range c.n {
				numbers[i] = fmt.Sprint("r", i)
				if strings.HasSuffix(name, "one number") {
					numbers[i] = "r"
				}
				amount := c.amounts(i)
				all.Go(func() { _, errs[i] = s.ask("o", numbers[i], amount) })
			}
			all.Wait()
			wins := 0
			for i, err := range errs {
				if err == nil {
					wins++
					s.advance(t, numbers[i])
				} else {
					require.ErrorIs(t, err, refund.ErrExceeds)
				}
			}
			if c.wins >= 0 {
				require.Equal(t, c.wins, wins)
			}
			pending := s.Count(t, "SELECT refund_pending FROM payments WHERE out_trade_no = 'o'")
			require.LessOrEqual(t, pending, 100)
			require.Equal(t, pending, s.Count(t, "SELECT sum(amount) FROM refunds WHERE state = 'PENDING'"))
			s.RequireInvariants(t)

			// Every other one fails, and is free again to the last unit.
			for i, err := range errs {
				if err == nil {
					state := channel.RefundRefused
					if i%2 == 0 {
						state = channel.RefundSucceeded
					}
					s.bank.settle(numbers[i], state)
					s.advance(t, numbers[i])
				}
			}
			left := 100 - s.Count(t, "SELECT coalesce(sum(amount), 0) FROM refunds WHERE state = 'SUCCEEDED'")
			require.Equal(t, fmt.Sprintf("merchant %d held 0", left), strings.Split(s.stands(t, "o"), ",")[0])
			s.bank.set(func(b *bank) { b.hold = false })
			if left > 0 {
				s.begin(t, "o", "rest", int64(left))
				s.advance(t, "rest")
			}
			require.Equal(t, "merchant 0 held 0, receivable 0; pending 0 refunded 100 FULL", s.stands(t, "o"))
			_, err := s.ask("o", "more", 1)
			require.ErrorIs(t, err, refund.ErrExceeds)
			s.RequireInvariants(t)
		})
	}
}

func TestATimeOutIsUnknownAndIsAskedForUnderTheSameNumber(t *testing.T) {
	t.Parallel()
	t.Run("it was done", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.begin(t, "o", "r", 60)
		s.bank.drop = true
		require.Equal(t, refund.Unknown, s.advance(t, "r"))
		require.Equal(t, "merchant 100 held 60, receivable 0; pending 60 refunded 0 NONE", s.stands(t, "o"), "unknown releases nothing")
		_, err := s.ask("o", "again", 60)
		require.ErrorIs(t, err, refund.ErrExceeds, "no second refund for one that is unknown")
		require.Equal(t, refund.Succeeded, s.advance(t, "r"))
		require.Equal(t, []string{"refund r", "query r"}, s.bank.heard())
		s.RequireInvariants(t)
	})
	t.Run("it never arrived", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.begin(t, "o", "r", 60)
		s.bank.away = true
		require.Equal(t, refund.Unknown, s.advance(t, "r"))
		require.Equal(t, refund.Unknown, s.advance(t, "r"))
		s.bank.set(func(b *bank) { b.away = false })
		require.Equal(t, refund.Succeeded, s.advance(t, "r"), "the bank does not know it, so it is called again, under its number")
		require.Equal(t, []string{"refund r", "query r", "query r", "refund r"}, s.bank.heard())
		require.Empty(t, s.get(t, "r").Failure)
		s.RequireInvariants(t)
	})
	t.Run("whoever called died", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		r := s.begin(t, "o", "r", 60)
		p, err := s.Refunds.Unknown(t.Context(), r.ID)
		require.NoError(t, err)
		require.Equal(t, refund.Pending, p.State, "nobody has called yet")
		s.bank.hold = true
		s.advance(t, "r")
		p, err = s.Refunds.Unknown(t.Context(), r.ID)
		require.NoError(t, err)
		require.Equal(t, refund.Unknown, p.State)
		require.Equal(t, refund.Pending, s.advance(t, "r"))
	})
}

func TestADefiniteRefusalReleases(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.begin(t, "o", "r", 60)
	s.bank.reject = "NOT_ENOUGH"
	require.Equal(t, refund.Failed, s.advance(t, "r"))
	require.Contains(t, s.get(t, "r").Failure, "NOT_ENOUGH")
	require.Equal(t, "merchant 100 held 0, receivable 0; pending 0 refunded 0 NONE", s.stands(t, "o"))
	s.RequireInvariants(t)

	// Refused after an earlier call of unknown outcome, it is asked for once more: that call may have arrived meanwhile.
	s.begin(t, "o", "r2", 60)
	s.bank.set(func(b *bank) { b.reject, b.away = "", true })
	require.Equal(t, refund.Unknown, s.advance(t, "r2"))
	s.bank.set(func(b *bank) { b.reject, b.away = "DUPLICATE", false })
	s.Clock.Pass(30 * time.Second)
	require.Equal(t, refund.Failed, s.advance(t, "r2"))
	require.Equal(t, []string{"refund r2", "query r2", "refund r2", "query r2"}, s.bank.heard()[1:])
}

func TestNoticesInEveryOrder(t *testing.T) {
	t.Parallel()
	success := refundEvent(channel.RefundSuccess, "r", "tx-o", 60)
	failed := refundEvent(channel.RefundFailed, "r", "tx-o", 60)
	abnormal := refundEvent(channel.RefundAbnormal, "r", "tx-o", 60)
	const (
		done     = "merchant 40 held 0, receivable 0; pending 0 refunded 60 PARTIAL"
		released = "merchant 100 held 0, receivable 0; pending 0 refunded 0 NONE"
		open     = "merchant 100 held 60, receivable 0; pending 60 refunded 0 NONE"
	)
	for name, c := range map[string]struct {
		bank   channel.RefundState // what it says when it is asked
		events []channel.Event
		want   string
		state  refund.State
	}{
		"success":                              {channel.RefundSucceeded, []channel.Event{success}, done, refund.Succeeded},
		"success twice":                        {channel.RefundSucceeded, []channel.Event{success, success}, done, refund.Succeeded},
		"failure":                              {channel.RefundRefused, []channel.Event{failed}, released, refund.Failed},
		"failure after success":                {channel.RefundRefused, []channel.Event{success, failed}, released, refund.Failed},
		"failure after success, out of order":  {channel.RefundRefused, []channel.Event{failed, success}, released, refund.Failed},
		"success after failure":                {channel.RefundSucceeded, []channel.Event{failed, success}, done, refund.Succeeded},
		"success after failure, out of order":  {channel.RefundSucceeded, []channel.Event{success, failed}, done, refund.Succeeded},
		"stuck":                                {channel.RefundStuck, []channel.Event{abnormal}, open, refund.Unknown},
		"stuck, then success":                  {channel.RefundSucceeded, []channel.Event{abnormal, success}, done, refund.Succeeded},
		"stuck, then failure":                  {channel.RefundRefused, []channel.Event{abnormal, failed}, released, refund.Failed},
		"success, then a late word of trouble": {channel.RefundSucceeded, []channel.Event{success, abnormal}, done, refund.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.paid(t, "o", 100)
			s.bank.hold = true
			s.begin(t, "o", "r", 60)
			s.advance(t, "r")
			s.bank.settle("r", c.bank)
			for _, e := range c.events {
				s.tell(t, e)
			}
			require.Equal(t, c.want, s.stands(t, "o"))
			require.Equal(t, c.state, s.get(t, "r").State)
			require.Zero(t, s.Count(t, "SELECT count(*) FROM channel_events WHERE state IN ('RECEIVED', 'PARKED')"))
			s.RequireInvariants(t)
			if c.state == refund.Failed {
				s.begin(t, "o", "next", 100)
				require.Equal(t, "merchant 100 held 100, receivable 0; pending 100 refunded 0 NONE", s.stands(t, "o"), "refundable again")
			}
		})
	}
}

func TestAStuckRefundIsAskedForUntilAPersonHasActed(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.bank.hold = true
	s.begin(t, "o", "r", 60)
	s.advance(t, "r")
	s.bank.settle("r", channel.RefundStuck)
	for range 2 {
		require.Equal(t, refund.Unknown, s.advance(t, "r"))
	}
	got := s.get(t, "r")
	require.True(t, got.Abnormal)
	require.Equal(t, "merchant 100 held 60, receivable 0; pending 60 refunded 0 NONE", s.stands(t, "o"))
	s.bank.settle("r", channel.RefundSucceeded)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.False(t, s.get(t, "r").Abnormal)
	s.RequireInvariants(t)
}

func TestAnAnswerThatContradictsItsRefundIsParked(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.bank.hold = true
	s.begin(t, "o", "r", 60)
	s.advance(t, "r")
	other := func(change func(e *channel.Event)) channel.Event {
		e := refundEvent(channel.RefundSuccess, "r", "tx-o", 60)
		change(&e)
		return e
	}
	for outcome, e := range map[payment.Outcome]channel.Event{
		payment.AmountMismatch:   other(func(e *channel.Event) { e.Amount = 59 }),
		payment.CurrencyMismatch: other(func(e *channel.Event) { e.Currency, e.Kind = "USD", channel.RefundFailed }),
		payment.ContextMismatch:  other(func(e *channel.Event) { e.TransactionID, e.Kind = "tx-else", channel.RefundAbnormal }),
		payment.Conflict:         other(func(e *channel.Event) { e.Subject = "b-else" }),
	} {
		require.Equal(t, outcome, s.tell(t, e)[0].Outcome)
	}
	require.Equal(t, refund.Pending, s.get(t, "r").State)
	// A right report under the key of a wrong one is booked.
	s.tell(t, refundEvent(channel.RefundSuccess, "r", "tx-o", 60))
	require.Equal(t, refund.Succeeded, s.get(t, "r").State)
	s.RequireInvariants(t)
}

func TestANoticeBeforeItsPaymentsOwnEvent(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.Create(t, testhouse.Order("o", 100))
	early := s.tell(t, channel.Event{Kind: channel.RefundSuccess, Subject: "b-x", TransactionID: "tx-o", OutNo: "console-1", Amount: 30, Currency: "CNY"})
	require.Equal(t, payment.UnknownRefund, early[0].Outcome)
	s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx-o", TransactionID: "tx-o", OutTradeNo: "o", Amount: 100, Currency: "CNY"})
	_, err := s.Entry.Redrive(t.Context())
	require.NoError(t, err)
	s.settle(t)
	require.Equal(t, "merchant 70 held 0, receivable 0; pending 0 refunded 30 PARTIAL", s.stands(t, "o"))
	require.Equal(t, refund.ByChannel, s.get(t, "console-1").Origin)
	s.RequireInvariants(t)
}

// The notice is there before anybody here knows of the refund: it is adopted, or found by whoever makes the row, and the money
// goes back once.
func TestANoticeBeforeOurOwnCommit(t *testing.T) {
	t.Parallel()
	for round := range 10 {
		s := newStory(t)
		s.paid(t, "o", 100)
		var all sync.WaitGroup
		var asked error
		all.Go(func() { _, asked = s.ask("o", "r", 60) })
		all.Go(func() {
			_, err := s.Entry.Report(context.Background(), s.at, bankBody(refundEvent(channel.RefundSuccess, "r", "tx-o", 60)), s.Clock.Now())
			if err != nil {
				panic(err)
			}
			for _, d := range s.driver.Take() {
				if _, err := s.Books.Apply(context.Background(), d.EventID); err != nil {
					panic(err)
				}
			}
		})
		all.Wait()
		require.NoError(t, asked)
		s.settle(t)
		require.Equal(t, refund.Succeeded, s.get(t, "r").State, "round %d", round)
		require.Equal(t, "merchant 40 held 0, receivable 0; pending 0 refunded 60 PARTIAL", s.stands(t, "o"))
		s.RequireInvariants(t)
	}
}

func TestANoticeWithoutATransactionWaitsForItsRow(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	e := refundEvent(channel.RefundSuccess, "r", "", 60)
	require.Equal(t, payment.UnknownRefund, s.tell(t, e)[0].Outcome)
	s.begin(t, "o", "r", 60)
	s.settle(t) // the creator has found it after its commit
	require.Equal(t, refund.Succeeded, s.get(t, "r").State)
	require.Empty(t, s.bank.heard())
	s.RequireInvariants(t)
}

func TestARefundMadeAtTheChannelIsAdopted(t *testing.T) {
	t.Parallel()
	console := func(id string, amount int64) channel.Event {
		return channel.Event{Kind: channel.RefundSuccess, Subject: id, TransactionID: "tx-o", Amount: amount, Currency: "CNY"}
	}
	t.Run("within what was captured", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		for range 2 {
			s.tell(t, console("c1", 30))
		}
		s.tell(t, console("c2", 30))
		require.Equal(t, "merchant 40 held 0, receivable 0; pending 0 refunded 60 PARTIAL", s.stands(t, "o"))
		_, err := s.ask("o", "r", 41)
		require.ErrorIs(t, err, refund.ErrExceeds, "it counts against the ceiling")
		list, err := refund.List(t.Context(), s.Engine, s.Tenant, refund.Filter{OutTradeNo: "o", Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Regexp(t, `^channel-[0-9a-f]{40}$`, list[0].OutRefundNo)
		s.RequireInvariants(t)

		// It fails after all.
		s.tell(t, channel.Event{Kind: channel.RefundFailed, Subject: "c2", TransactionID: "tx-o", Amount: 30, Currency: "CNY"})
		events := s.Events(t, "")
		require.Equal(t, "PARKED CONFLICT", events[len(events)-1], "the bank is asked and knows nothing of it: a person has to look")
		s.RequireInvariants(t)
	})
	t.Run("beyond what was captured, the rest is a receivable", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.hold = true
		s.begin(t, "o", "r", 60)
		s.advance(t, "r")
		s.tell(t, console("c1", 70))
		require.Equal(t, "merchant 60 held 60, receivable -30; pending 60 refunded 70 PARTIAL", s.stands(t, "o"))
		s.RequireInvariants(t)
		// Our own fails at the channel, which has too little left.
		s.bank.settle("r", channel.RefundRefused)
		require.Equal(t, refund.Failed, s.advance(t, "r"))
		require.Equal(t, "merchant 30 held 0, receivable 0; pending 0 refunded 70 PARTIAL", s.stands(t, "o"), "what is free again is not owed at the same time")
		_, err := s.ask("o", "r2", 31)
		require.ErrorIs(t, err, refund.ErrExceeds, "the channel has 30 left")
		s.RequireInvariants(t)
	})
	t.Run("of a merchant who has spent it", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.spend(t, 90)
		s.tell(t, console("c1", 70))
		require.Equal(t, "merchant 0 held 0, receivable -60; pending 0 refunded 70 PARTIAL", s.stands(t, "o"), "never a balance below zero")
		s.RequireInvariants(t)
	})
	t.Run("under a number that another account has", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		require.NoError(t, s.Accounts.Add(t.Context(), s.Tenant, bankName, "second-"+s.Tenant, []byte("{}")))
		second, err := s.Accounts.Find(t.Context(), bankName, "second-"+s.Tenant)
		require.NoError(t, err)
		s.begin(t, "o", "same", 10)
		s.Create(t, testhouse.Order("o2", 100))
		first := s.at
		s.at = second
		s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx-2", TransactionID: "tx-2", OutTradeNo: "o2", Amount: 100, Currency: "CNY"})
		s.tell(t, channel.Event{Kind: channel.RefundSuccess, Subject: "c", TransactionID: "tx-2", OutNo: "same", Amount: 20, Currency: "CNY"})
		s.at = first
		require.Equal(t, refund.Pending, s.get(t, "same").State)
		require.Equal(t, 20, s.Count(t, "SELECT refunded_amount FROM payments WHERE out_trade_no = 'o2'"))
		s.RequireInvariants(t)
	})
}

// spend takes money off the merchant's account.
func (s *story) spend(t *testing.T, amount int64) {
	t.Helper()
	tx, err := s.Engine.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, _, err = ledger.Post(t.Context(), tx, ledger.Journal{TenantID: s.Tenant, Key: fmt.Sprint("spent-", amount), Kind: "posting", Lines: []ledger.Line{
		{Code: ledger.Merchant, Currency: "CNY", Amount: -amount}, {Code: "bank", Currency: "CNY", Amount: amount, AllowNegative: true},
	}})
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
}

func TestASuccessAfterFailureBeyondWhatIsLeftIsAReceivable(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.bank.hold = true
	s.begin(t, "o", "r1", 60)
	s.advance(t, "r1")
	s.bank.settle("r1", channel.RefundRefused)
	s.advance(t, "r1")
	s.begin(t, "o", "r2", 100)
	s.advance(t, "r2")
	s.bank.settle("r2", channel.RefundSucceeded)
	s.advance(t, "r2")
	s.bank.settle("r1", channel.RefundSucceeded)
	s.tell(t, refundEvent(channel.RefundSuccess, "r1", "tx-o", 60))
	require.Equal(t, refund.Succeeded, s.get(t, "r1").State)
	require.Equal(t, "merchant 0 held 0, receivable -60; pending 0 refunded 160 FULL", s.stands(t, "o"))
	s.RequireInvariants(t)
}

func TestAMerchantWhoHasTooLittle(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.spend(t, 70)
	_, err := s.ask("o", "r", 60)
	require.ErrorIs(t, err, ledger.ErrInsufficient, "refused unless the tenant says otherwise")
	require.Equal(t, "merchant 30 held 0, receivable 0; pending 0 refunded 0 NONE", s.stands(t, "o"), "and nothing is left behind")

	require.NoError(t, tenant.SetPolicy(t.Context(), s.Engine, s.Tenant, tenant.Policy{RefundShortfall: tenant.AllowReceivable}))
	s.begin(t, "o", "r", 60)
	require.Equal(t, "merchant 30 held 30, receivable 0; pending 60 refunded 0 NONE", s.stands(t, "o"))
	s.advance(t, "r")
	require.Equal(t, "merchant 0 held 0, receivable -30; pending 0 refunded 60 PARTIAL", s.stands(t, "o"))
	s.begin(t, "o", "r2", 40)
	require.Equal(t, refund.Succeeded, s.advance(t, "r2"), "with nothing on the account at all")
	require.Equal(t, "merchant 0 held 0, receivable -70; pending 0 refunded 100 FULL", s.stands(t, "o"))
	s.RequireInvariants(t)

	s.bank.settle("r2", channel.RefundRefused)
	s.tell(t, refundEvent(channel.RefundFailed, "r2", "tx-o", 40))
	require.Equal(t, "merchant 0 held 0, receivable -30; pending 0 refunded 60 PARTIAL", s.stands(t, "o"), "what failed is owed no more")
	s.RequireInvariants(t)
}

// Alipay tells of a refund by a message whose amounts may be totals: nothing is booked from it.
func TestAHintHasTheChannelAsked(t *testing.T) {
	t.Parallel()
	hint := func(number string) channel.Event {
		return channel.Event{Kind: channel.RefundHint, Subject: "h-" + number, TransactionID: "tx-o", OutNo: number, Amount: 99, Currency: "CNY"}
	}
	t.Run("of our own", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.hold = true
		s.begin(t, "o", "r", 60)
		s.advance(t, "r")
		s.bank.settle("r", channel.RefundSucceeded)
		s.tell(t, hint("r"))
		require.Equal(t, "merchant 40 held 0, receivable 0; pending 0 refunded 60 PARTIAL", s.stands(t, "o"))
		require.Equal(t, []string{"refund r", "query r"}, s.bank.heard())
		s.RequireInvariants(t)
	})
	t.Run("of our own that is pending still", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.hold = true
		s.begin(t, "o", "r", 60)
		s.advance(t, "r")
		s.tell(t, hint("r"))
		require.Equal(t, refund.Pending, s.get(t, "r").State)
		require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM channel_events WHERE outcome = 'REFUND_ASKED'"))
		s.RequireInvariants(t)
	})
	t.Run("of one made in the console", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.refunds["c"] = &banked{channel.Refund{OutRefundNo: "c", TransactionID: "tx-o", Amount: 25}, channel.RefundSucceeded}
		s.tell(t, hint("c"))
		require.Equal(t, "merchant 75 held 0, receivable 0; pending 0 refunded 25 PARTIAL", s.stands(t, "o"))
		s.tell(t, hint("nothing"))
		require.Equal(t, "merchant 75 held 0, receivable 0; pending 0 refunded 25 PARTIAL", s.stands(t, "o"))
		s.RequireInvariants(t)
	})
	t.Run("of one that is booked", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.begin(t, "o", "r", 60)
		s.advance(t, "r")
		require.Equal(t, payment.Stale, s.tell(t, hint("r"))[0].Outcome)
		require.Equal(t, []string{"refund r"}, s.bank.heard())
	})
	t.Run("that names no refund", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		nameless := func(total string) channel.Event {
			return channel.Event{Kind: channel.RefundHint, Subject: "charge:" + total, TransactionID: "tx-o"}
		}
		require.Equal(t, payment.UnknownRefund, s.tell(t, nameless("25"))[0].Outcome, "nobody here knows of any")
		s.bank.hold = true
		for _, number := range []string{"r1", "r2"} {
			s.begin(t, "o", number, 30)
			s.advance(t, number)
		}
		s.bank.settle("r1", channel.RefundSucceeded)
		s.tell(t, nameless("30"))
		require.Equal(t, refund.Succeeded, s.get(t, "r1").State, "all open ones are asked about")
		require.Equal(t, refund.Pending, s.get(t, "r2").State)
		_, err := s.Entry.Redrive(t.Context())
		require.NoError(t, err)
		s.settle(t)
		require.Zero(t, s.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'PARKED'"), "the first one has found its refunds")
		s.bank.settle("r2", channel.RefundSucceeded)
		s.advance(t, "r2")
		require.Equal(t, payment.Stale, s.tell(t, nameless("60"))[0].Outcome)
		s.RequireInvariants(t)
	})
	t.Run("while the channel is away", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.away = true
		results, err := s.Entry.Report(t.Context(), s.at, bankBody(hint("c")), s.Clock.Now())
		require.NoError(t, err)
		applied, err := s.Books.Apply(t.Context(), results[0].EventID)
		require.NoError(t, err)
		require.Equal(t, bankName, applied.Ask)
		_, err = s.Refunds.AskAbout(t.Context(), results[0].EventID)
		require.ErrorIs(t, err, errAway)
		require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'RECEIVED'"), "it waits, and is asked again")
	})
}

func TestWithoutAnAcquirerOnlyACallbackEndsARefund(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.Create(t, testhouse.Order("o", 100))
	s.Report(t, testhouse.Paid(t, "tx", "o", 100))
	s.driver.Book(t, s.Books)
	r := s.begin(t, "o", "r", 60)
	require.Empty(t, s.driver.TakeRefunds(), "no flow waits for what may never come")
	require.Equal(t, refund.Pending, s.advance(t, "r"))
	_, err := s.Refunds.Retry(t.Context(), s.Tenant, "r")
	require.ErrorIs(t, err, channel.ErrUnsupported)
	s.Clock.Pass(48 * time.Hour)
	_, err = s.Refunds.Redrive(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.driver.TakeRefunds())

	report := func(kind string, at time.Time) {
		t.Helper()
		s.Report(t, refundMessage(t, kind, "f1", "r", 60, at))
		for _, d := range s.driver.Take() {
			require.True(t, d.Flow == payment.Flow{} || d.Flow == payment.Flow{Row: r.ID, Number: "r"})
			s.book(t, d.EventID)
		}
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	report("refund.succeeded", noon)
	require.Equal(t, "merchant 40 held 0, receivable 0; pending 0 refunded 60 PARTIAL", s.stands(t, "o"))
	report("refund.failed", noon.Add(-time.Minute))
	require.Equal(t, refund.Succeeded, s.get(t, "r").State, "an older word that came late")
	s.RequireInvariants(t)
}

func TestAnOperatorsRetryAndARefundWhoseFlowWasLost(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	s.driver.Err = errors.New("the engine is away")
	s.begin(t, "o", "r", 60)
	s.driver.Err = nil
	redrive := func() int {
		t.Helper()
		_, err := s.Refunds.Redrive(t.Context())
		require.NoError(t, err)
		return len(s.driver.TakeRefunds())
	}
	require.Zero(t, redrive())
	s.Clock.Pass(5 * time.Second)
	require.Equal(t, 1, redrive(), "soon after the engine did not take it")
	require.Zero(t, redrive())
	s.Clock.Pass(time.Minute)
	require.Equal(t, 1, redrive(), "its flow should have moved it by now")
	s.bank.drop = true
	s.advance(t, "r")
	s.Clock.Pass(time.Minute)
	require.Zero(t, redrive(), "its flow comes again by itself")
	s.Clock.Pass(3 * time.Minute)
	require.Equal(t, 1, redrive())

	_, err := s.Refunds.Retry(t.Context(), s.Tenant, "r")
	require.NoError(t, err)
	require.Len(t, s.driver.TakeRefunds(), 1)
	s.advance(t, "r")
	require.Equal(t, []string{"refund r", "query r"}, s.bank.heard(), "the bank saw one call and one number")
	_, err = s.Refunds.Retry(t.Context(), s.Tenant, "r")
	require.ErrorIs(t, err, refund.ErrEnded)
	_, err = s.Refunds.Retry(t.Context(), s.Tenant, "none")
	require.ErrorIs(t, err, refund.ErrNotFound)
	_, err = refund.Find(t.Context(), s.Engine, "another", "r")
	require.ErrorIs(t, err, refund.ErrNotFound)
	s.RequireInvariants(t)
}

// An engine that is away is asked once a round, or each round would wait for it as often as there are refunds.
func TestAnAwayEngineIsAskedOnceARound(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	for i := range 3 {
		s.begin(t, "o", fmt.Sprint("r", i), 10)
	}
	require.Len(t, s.driver.TakeRefunds(), 3)
	s.Clock.Pass(time.Minute)
	s.driver.Err = errors.New("the engine is away")
	before := s.driver.TriedRefunds()
	_, err := s.Refunds.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.driver.TriedRefunds()-before)
	s.driver.Err = nil
	s.Clock.Pass(5 * time.Second)
	moved, err := s.Refunds.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, moved, "who was not tried waits no longer than who was")
	require.Len(t, s.driver.TakeRefunds(), 3)
	s.RequireInvariants(t)
}

func TestTheChannelsFeeIsBookedWithThePaymentAndComesBackAsTheChannelSays(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	fee := int64(3)
	s.Create(t, testhouse.Order("o", 100))
	s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx-o", TransactionID: "tx-o", OutTradeNo: "o", Amount: 100, Currency: "CNY", Fee: &fee})
	require.Equal(t, 97, s.Balance(t, "merchant"))
	require.Equal(t, 3, s.Balance(t, "fees"))
	more := int64(-1) // a channel that takes one more for the refund
	s.bank.fee = &more
	s.begin(t, "o", "r0", 10)
	s.advance(t, "r0")
	require.Equal(t, 3, s.Balance(t, "fees"), "is the bill's business")
	back := int64(2) // the channel's own rounding of 60 % of 3
	s.bank.fee = &back
	s.begin(t, "o", "r", 60)
	s.advance(t, "r")
	require.Equal(t, 29, s.Balance(t, "merchant"))
	require.Equal(t, 1, s.Balance(t, "fees"))
	s.RequireInvariants(t)
	s.bank.settle("r", channel.RefundRefused)
	s.tell(t, refundEvent(channel.RefundFailed, "r", "tx-o", 60))
	require.Equal(t, 87, s.Balance(t, "merchant"), "what failed takes its fee back too")
	require.Equal(t, 3, s.Balance(t, "fees"))
	s.RequireInvariants(t)
}
