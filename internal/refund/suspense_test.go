package refund_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func refundMessage(t *testing.T, kind, refundID, number string, amount int64, at time.Time) []byte {
	t.Helper()
	body, err := json.Marshal(standard.Message{Type: kind, Timestamp: at, Data: standard.Data{
		RefundID: refundID, OutRefundNo: number, TransactionID: "tx", Amount: amount, Currency: "CNY", OccurredAt: &at,
	}})
	require.NoError(t, err)
	return body
}

// second pays a paid order once more: the money is in suspense. It gives the event.
func (s *story) second(t *testing.T, order string, amount int64) int64 {
	t.Helper()
	s.paid(t, order, amount)
	e := channel.Event{Kind: channel.PaySuccess, Subject: "second-" + order, TransactionID: "second-" + order, OutTradeNo: order, Amount: amount, Currency: "CNY"}
	s.bank.set(func(b *bank) {
		b.orders[order] = channel.Standing{State: channel.OrderPaid, Body: bankBody(e)}
	})
	id := s.tell(t, e)[0].EventID
	require.Equal(t, int(amount), s.Balance(t, "suspense"))
	return id
}

func (s *story) automatic(t *testing.T) {
	t.Helper()
	require.NoError(t, tenant.SetPolicy(t.Context(), s.Engine, s.Tenant, tenant.Policy{SuspenseRefund: tenant.Automatic}))
}

func TestMoneyInSuspenseGoesBackOnceWhenAnOperatorSaysSo(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	event := s.second(t, "o", 100)
	before := s.stands(t, "o")
	_, err := s.Refunds.Redrive(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.driver.TakeRefunds(), "a person decides unless the tenant says otherwise")

	r, created, err := s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	require.True(t, created)
	require.Regexp(t, `^suspense-[0-9a-f]{40}$`, r.OutRefundNo)
	again, created, err := s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, r.ID, again.ID, "the same event, the same number")

	require.Equal(t, refund.Succeeded, s.advance(t, r.OutRefundNo))
	require.Equal(t, []string{"refund " + r.OutRefundNo}, s.bank.heard())
	require.Zero(t, s.Balance(t, "suspense"))
	require.Equal(t, before, s.stands(t, "o"), "it never touches the order's numbers")
	again, created, err = s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, refund.Succeeded, again.State)
	s.RequireInvariants(t)

	credited := s.Count(t, "SELECT id FROM channel_events WHERE outcome = 'CREDITED'")
	_, _, err = s.Refunds.Return(t.Context(), s.Tenant, int64(credited), "no", false)
	require.ErrorIs(t, err, refund.ErrNotInSuspense)
	_, _, err = s.Refunds.Return(t.Context(), "another", event, "no", false)
	require.ErrorIs(t, err, payment.ErrEventNotFound)
}

func TestMoneyInSuspenseGoesBackByItselfOnceTheChannelConfirmsIt(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	before := s.second(t, "before", 50)
	s.automatic(t)
	s.second2(t, "o", 100)
	_, err := s.Refunds.Redrive(t.Context())
	require.NoError(t, err)
	due := s.driver.TakeRefunds()
	require.Len(t, due, 1, "what came before the policy is a person's")
	require.Equal(t, refund.Succeeded, s.advance(t, due[0].OutRefundNo))
	require.Equal(t, []string{"order o", "refund " + due[0].OutRefundNo}, s.bank.heard(), "asked first")
	require.Equal(t, 50, s.Balance(t, "suspense"))
	_, err = s.Refunds.Redrive(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.driver.TakeRefunds())
	_, _, err = s.Refunds.Return(t.Context(), s.Tenant, before, "by hand", false)
	require.NoError(t, err)
	s.RequireInvariants(t)
}

// second2 is second for a story that has money in suspense already.
func (s *story) second2(t *testing.T, order string, amount int64) {
	t.Helper()
	s.paid(t, order, amount)
	e := channel.Event{Kind: channel.PaySuccess, Subject: "second-" + order, TransactionID: "second-" + order, OutTradeNo: order, Amount: amount, Currency: "CNY"}
	s.bank.set(func(b *bank) { b.orders[order] = channel.Standing{State: channel.OrderPaid, Body: bankBody(e)} })
	s.tell(t, e)
}

func TestNothingGoesBackByItselfThatTheChannelDoesNotConfirm(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]channel.Standing{
		"it is open":               {State: channel.OrderOpen},
		"it knows nothing of it":   {State: channel.OrderUnknown},
		"another transaction paid": {State: channel.OrderPaid, Body: bankBody(channel.Event{Kind: channel.PaySuccess, Subject: "else", TransactionID: "else", OutTradeNo: "o", Amount: 100, Currency: "CNY"})},
		"another amount was paid":  {State: channel.OrderPaid, Body: bankBody(channel.Event{Kind: channel.PaySuccess, Subject: "second-o", TransactionID: "second-o", OutTradeNo: "o", Amount: 99, Currency: "CNY"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.automatic(t)
			event := s.second(t, "o", 100)
			s.bank.set(func(b *bank) { b.orders["o"] = say })
			_, err := s.Refunds.Redrive(t.Context())
			require.NoError(t, err)
			number := s.driver.TakeRefunds()[0].OutRefundNo
			s.bank.set(func(b *bank) { b.away = true })
			require.Equal(t, refund.Unknown, s.advance(t, number), "no answer is no answer")
			s.bank.set(func(b *bank) { b.away = false })
			require.Equal(t, refund.Failed, s.advance(t, number))
			require.NotContains(t, s.bank.heard(), "refund "+number)
			require.Equal(t, 100, s.Balance(t, "suspense"))
			require.Zero(t, s.Count(t, "SELECT sum(held) FROM ledger_accounts"))
			_, err = s.Refunds.Redrive(t.Context())
			require.NoError(t, err)
			require.Empty(t, s.driver.TakeRefunds(), "from here on it is a person's")

			// A person may know better. What failed for good is tried under the next number.
			r, created, err := s.Refunds.Return(t.Context(), s.Tenant, event, "checked by phone", false)
			require.NoError(t, err)
			require.True(t, created)
			require.Equal(t, number+"-1", r.OutRefundNo)
			require.Equal(t, refund.Succeeded, s.advance(t, r.OutRefundNo))
			require.Zero(t, s.Balance(t, "suspense"))
			s.RequireInvariants(t)
		})
	}
}

func TestAWrongAmountThatWasBookedToSuspenseGoesBackWhole(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.Create(t, testhouse.Order("o", 100))
	parked := s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx", TransactionID: "tx", OutTradeNo: "o", Amount: 99, Currency: "CNY"})[0]
	require.Equal(t, payment.AmountMismatch, parked.Outcome)
	_, _, err := s.Refunds.Return(t.Context(), s.Tenant, parked.EventID, "not booked yet", false)
	require.ErrorIs(t, err, refund.ErrNotInSuspense)
	_, err = s.Books.BookToSuspense(t.Context(), s.Tenant, parked.EventID, "the payer wants it back")
	require.NoError(t, err)
	r, _, err := s.Refunds.Return(t.Context(), s.Tenant, parked.EventID, "wrong amount", false)
	require.NoError(t, err)
	require.Equal(t, int64(99), r.Amount)
	s.advance(t, r.OutRefundNo)
	require.Zero(t, s.Balance(t, "suspense"))
	require.Equal(t, payment.Pending, s.State(t, "o"))
	s.RequireInvariants(t)
}

func TestARefundOfMoneyInSuspenseThatWasMadeAtTheChannel(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	event := s.second(t, "o", 100)
	s.tell(t, channel.Event{Kind: channel.RefundSuccess, Subject: "c1", TransactionID: "second-o", Amount: 40, Currency: "CNY"})
	require.Equal(t, 60, s.Balance(t, "suspense"))
	r, _, err := s.Refunds.Return(t.Context(), s.Tenant, event, "the rest", false)
	require.NoError(t, err)
	require.Equal(t, int64(60), r.Amount)
	s.advance(t, r.OutRefundNo)
	require.Zero(t, s.Balance(t, "suspense"))
	s.tell(t, channel.Event{Kind: channel.RefundSuccess, Subject: "c2", TransactionID: "second-o", Amount: 5, Currency: "CNY"})
	require.Equal(t, -5, s.Balance(t, "receivable"), "beyond what came")
	require.Equal(t, "merchant 100 held 0, receivable -5; pending 0 refunded 0 NONE", s.stands(t, "o"))
	s.RequireInvariants(t)
}

// The first refund is refused, the second one pays, and then the first one has paid after all: an event with two refunds.
func TestMoneyInSuspenseThatWentBackTwice(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	event := s.second(t, "o", 100)
	s.bank.reject = "NO"
	first, _, err := s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	require.Equal(t, refund.Failed, s.advance(t, first.OutRefundNo))
	s.bank.set(func(b *bank) { b.reject = "" })
	second, _, err := s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	require.Equal(t, refund.Succeeded, s.advance(t, second.OutRefundNo))
	paid := channel.Refund{OutRefundNo: first.OutRefundNo, TransactionID: "second-o", Amount: 100}
	s.bank.set(func(b *bank) { b.refunds[first.OutRefundNo] = &banked{paid, channel.RefundSucceeded} })
	s.tell(t, refundEvent(channel.RefundSuccess, first.OutRefundNo, "second-o", 100))
	require.EqualValues(t, 100, s.get(t, first.OutRefundNo).Excess)
	require.Zero(t, s.Balance(t, "suspense"))
	require.Equal(t, -100, s.Balance(t, "receivable"))
	there, created, err := s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, second.ID, there.ID)
	s.RequireInvariants(t)
}

// Money that somebody has moved off the account by hand cannot go back by itself. It must not keep newer money from doing so.
func TestMoneyThatWasMovedByHandDoesNotStandInTheWayOfTheRest(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.automatic(t)
	moved := s.second(t, "old", 100)
	require.NoError(t, pgx.BeginFunc(t.Context(), s.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: s.Tenant, Key: "by-hand", Kind: "posting", Lines: []ledger.Line{
			{Code: ledger.Suspense, Currency: "CNY", Amount: -100}, {Code: "bank", Currency: "CNY", Amount: 100, AllowNegative: true},
		}})
		return err
	}))
	core, told := observer.New(zap.ErrorLevel)
	refunds := refund.New(refund.Config{Pool: s.Engine, Accounts: s.Accounts, Entry: s.Entry, Driver: s.driver, Shares: s.Shares, Log: zap.New(core), Now: s.Clock.Now})
	for range 3 {
		_, err := refunds.Redrive(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 1, told.FilterField(zap.String("alert", alert.MoneyAside)).Len(), "people are told once")
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM channel_events WHERE id = $1 AND return_refused LIKE '%insufficient funds%'", moved))
	s.second2(t, "new", 40)
	_, err := refunds.Redrive(t.Context())
	require.NoError(t, err)
	require.Len(t, s.driver.TakeRefunds(), 1)
	s.RequireInvariants(t)
}

// A number that is made here can be nobody's else.
func TestNumbersThatAreMadeHereAreReserved(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.paid(t, "o", 100)
	for _, number := range []string{"suspense-1", "channel-abc"} {
		_, err := s.ask("o", number, 10)
		require.ErrorIs(t, err, refund.ErrNumberReserved)
	}
	require.Zero(t, s.Count(t, "SELECT refund_pending FROM payments WHERE out_trade_no = 'o'"))
	// One that was made under such a number in the console gets one that is derived.
	s.tell(t, refundEvent(channel.RefundSuccess, "suspense-1", "tx-o", 30))
	list, err := refund.List(t.Context(), s.Engine, s.Tenant, refund.Filter{OutTradeNo: "o", Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Regexp(t, `^channel-[0-9a-f]{40}$`, list[0].OutRefundNo)
	s.RequireInvariants(t)
}
