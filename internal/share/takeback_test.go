package share_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
)

// shared is a paid order of 645 that was shared at 30 to 70 and finished.
func sharedSale(t *testing.T) *sharer {
	t.Helper()
	s := newSharer(t, 645, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("a", 30, "b", 70)})
	require.True(t, s.call(t, "s").Ended)
	return s
}

func (s *sharer) refund(t *testing.T, number string, amount int64) refund.Refund {
	t.Helper()
	r, created, err := s.Refunds.Create(t.Context(), refund.Request{TenantID: s.Tenant, OutTradeNo: "o", OutRefundNo: number, Amount: amount})
	require.NoError(t, err)
	require.True(t, created)
	return r
}

// advance has the one thing done that is due for a refund, and books what the channel says of it.
func (s *sharer) advance(t *testing.T, number string) refund.State {
	t.Helper()
	r, err := refund.Find(t.Context(), s.Engine, s.Tenant, number)
	require.NoError(t, err)
	p, err := s.Refunds.Advance(t.Context(), r.ID, 0)
	require.NoError(t, err)
	for _, id := range p.Events {
		_, err := s.books.Apply(t.Context(), id)
		require.NoError(t, err)
	}
	s.driver.Book(t, s.books)
	r, err = refund.Find(t.Context(), s.Engine, s.Tenant, number)
	require.NoError(t, err)
	s.RequireInvariants(t)
	return r.State
}

func (s *sharer) receivable(t *testing.T) {
	t.Helper()
	require.NoError(t, tenant.SetPolicy(t.Context(), s.Engine, s.Tenant, tenant.Policy{RefundOfShared: tenant.Receivable}))
	p, err := tenant.PolicyOf(t.Context(), s.Engine, s.Tenant)
	require.NoError(t, err)
	require.Equal(t, tenant.Policy{SuspenseRefund: tenant.ByOperator, RefundShortfall: tenant.Refuse, RefundOfShared: tenant.Receivable}, p)
}

// returns lists what refunds took back, as "refund account amount STATE".
func (s *sharer) returns(t *testing.T) (list []string) {
	t.Helper()
	for _, number := range []string{"s", "s2"} {
		sh, err := share.Find(t.Context(), s.Engine, s.Tenant, number)
		if err != nil {
			continue
		}
		found, err := share.Returns(t.Context(), s.Engine, sh.ID)
		require.NoError(t, err)
		for _, r := range found {
			list = append(list, fmt.Sprintf("%s %s %d %s", r.OutRefundNo, r.Account, r.Amount, r.State))
		}
	}
	return list
}

func TestReceiversGiveBackBeforeTheRefundGoesOut(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	require.Zero(t, s.Balance(t, "merchant"), "everything was shared")
	r := s.refund(t, "r", 645)
	require.Equal(t, int64(645), r.Awaited)
	s.RequireInvariants(t)
	require.Equal(t, []string{"r a 194 PENDING", "r b 451 PENDING"}, s.returns(t))
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, []string{"r a 194 RETURNED", "r b 451 RETURNED"}, s.returns(t))
	calls := s.bank.called()
	require.Equal(t, "refund r", calls[len(calls)-1], "and the refund last")
	require.Len(t, calls, 4)
	for _, account := range []string{"merchant", "receiver:a", "receiver:b", "receivable:a"} {
		require.Zero(t, s.Balance(t, account), account)
	}
	require.Zero(t, s.Balance(t, "channel:bank:bank-"+s.Tenant), "it all went back")
	s.requireBooks(t, 0, 0, 0)
}

func TestPartialRefundsTakeBackToTheCent(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	for i, want := range [][]int64{{65, 150}, {64, 151}, {65, 150}} {
		number := fmt.Sprint("r", i)
		s.refund(t, number, 215)
		require.Equal(t, refund.Succeeded, s.advance(t, number))
		require.Contains(t, s.returns(t), fmt.Sprintf("%s a %d RETURNED", number, want[0]))
		require.Contains(t, s.returns(t), fmt.Sprintf("%s b %d RETURNED", number, want[1]))
	}
	require.Equal(t, map[string]int64{"a": 194, "b": 451}, s.bank.gave, "exactly what each got")
	require.Zero(t, s.Balance(t, "receiver:a"))
	require.Zero(t, s.Balance(t, "receiver:b"))
	s.requireBooks(t, 0, 0, 0)
}

func TestTheMerchantBearsItsOwnPart(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	seventy := int64(70)
	s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("a", 30), MerchantRatio: &seventy})
	s.call(t, "s")
	r := s.refund(t, "r", 101)
	require.Equal(t, int64(30), r.Awaited, "30.3 of 101")
	require.Equal(t, int64(71), r.Held)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, 270, s.Balance(t, "receiver:a"))
	require.Equal(t, 629, s.Balance(t, "merchant"))
	// What comes after is shared of what is left.
	s.share(t, share.Request{OutOrderNo: "s2", Receivers: amounts("a", 629)})
	require.True(t, s.call(t, "s2").Ended)
	s.refund(t, "rest", 899)
	require.Equal(t, refund.Succeeded, s.advance(t, "rest"))
	require.Zero(t, s.Balance(t, "receiver:a"))
	require.Equal(t, map[string]int64{"a": 929}, s.bank.gave)
	s.requireBooks(t, 0, 0, 0)
}

func TestAReturnWithoutAnAnswerIsAskedForUnderItsNumber(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.refund(t, "r", 645)
	s.bank.fail["return"] = errNoAnswer
	require.Equal(t, refund.Pending, s.advance(t, "r"))
	s.bank.fail = map[string]error{}
	s.bank.refuse["query_return"] = errNoAnswer
	require.Equal(t, refund.Pending, s.advance(t, "r"))
	require.Empty(t, s.bank.refunds, "the refund waits")
	s.bank.refuse = map[string]error{}
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Len(t, s.bank.taken, 2, "one number each")
	require.Equal(t, map[string]int64{"a": 194, "b": 451}, s.bank.gave)
	s.requireBooks(t, 0, 0, 0)
}

func TestAReturnThatTakesItsTimeHoldsUpItsRefund(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.bank.pending = true
	s.refund(t, "r", 645)
	require.Equal(t, refund.Pending, s.advance(t, "r"))
	require.Equal(t, refund.Pending, s.advance(t, "r"))
	s.bank.pending = false
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	s.requireBooks(t, 0, 0, 0)
}

func TestAReceiverWhoDoesNotGiveBackOwes(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.pay(t, "other", 1000, "") // the merchant has money
	s.bank.broke["a"] = "the account is empty"
	s.refund(t, "r", 645)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, []string{"r a 194 OWED", "r b 451 RETURNED"}, s.returns(t))
	require.Equal(t, 194, s.Balance(t, "receivable:a"))
	require.Zero(t, s.Balance(t, "receiver:a"))
	require.Equal(t, 1000-194, s.Balance(t, "merchant"), "the merchant has paid for it")
	s.requireBooks(t, 0, 0, 0)

	// Asked again while nothing has changed: a number of its own, and it still owes.
	_, err := s.shares.Collect(t.Context(), s.Tenant, "s", "")
	require.NoError(t, err)
	sh := s.get(t, "s")
	open, err := s.shares.AskOwed(t.Context(), sh.ID)
	require.NoError(t, err)
	require.False(t, open)
	require.Equal(t, 194, s.Balance(t, "receivable:a"))

	delete(s.bank.broke, "a")
	_, err = s.shares.Collect(t.Context(), s.Tenant, "s", "b")
	require.ErrorIs(t, err, share.ErrNothingOwed)
	_, err = s.shares.Collect(t.Context(), s.Tenant, "s", "a")
	require.NoError(t, err)
	s.bank.fail["return"] = errNoAnswer
	open, err = s.shares.AskOwed(t.Context(), sh.ID)
	require.NoError(t, err)
	require.True(t, open)
	_, err = s.shares.Collect(t.Context(), s.Tenant, "s", "a")
	require.NoError(t, err, "it is being collected: nothing is begun anew")
	s.bank.fail = map[string]error{}
	open, err = s.shares.AskOwed(t.Context(), sh.ID)
	require.NoError(t, err)
	require.False(t, open)
	require.Equal(t, []string{"r a 194 CLEARED", "r b 451 RETURNED"}, s.returns(t))
	require.Zero(t, s.Balance(t, "receivable:a"))
	require.Equal(t, 1000, s.Balance(t, "merchant"))
	require.Equal(t, int64(194), s.bank.gave["a"], "once")
	require.Len(t, s.bank.taken, 4)
	s.requireBooks(t, 0, 0, 0)
}

func TestAMerchantWithoutMoneyCannotPayForAReceiver(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.bank.broke["b"] = "the account is empty"
	s.refund(t, "r", 645)
	require.Equal(t, refund.Failed, s.advance(t, "r"))
	require.Empty(t, s.bank.refunds, "nothing was refunded")
	require.Equal(t, []string{"r a 194 RETURNED", "r b 451 VOID"}, s.returns(t))
	require.Equal(t, 194, s.Balance(t, "merchant"), "what came back stays")
	require.Equal(t, 451, s.Balance(t, "receiver:b"))
	s.requireBooks(t, 0, 451, 0)

	// The next refund asks only for what it needs beyond that.
	delete(s.bank.broke, "b")
	s.refund(t, "again", 645)
	require.Equal(t, refund.Succeeded, s.advance(t, "again"))
	require.Equal(t, map[string]int64{"a": 194, "b": 451}, s.bank.gave)
	s.requireBooks(t, 0, 0, 0)
}

func TestByPolicyTheMerchantPaysAndTheReceiversOwe(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.receivable(t)
	s.pay(t, "other", 1000, "")
	r := s.refund(t, "r", 300)
	require.Zero(t, r.Awaited)
	require.Equal(t, []string{"r a 90 DUE", "r b 210 DUE"}, s.returns(t))
	require.Zero(t, s.Balance(t, "receivable:a"), "not before the money is gone")
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, []string{"r a 90 OWED", "r b 210 OWED"}, s.returns(t))
	require.Equal(t, 90, s.Balance(t, "receivable:a"))
	require.Equal(t, 210, s.Balance(t, "receivable:b"))
	require.Equal(t, 104, s.Balance(t, "receiver:a"))
	require.Equal(t, 700, s.Balance(t, "merchant"))
	require.NotContains(t, fmt.Sprint(s.bank.called()), "return", "nobody was asked")
	s.requireBooks(t, 0, 345, 0)

	_, err := s.shares.Collect(t.Context(), s.Tenant, "s", "")
	require.NoError(t, err)
	_, err = s.shares.AskOwed(t.Context(), s.get(t, "s").ID)
	require.NoError(t, err)
	require.Zero(t, s.Balance(t, "receivable:a"))
	require.Zero(t, s.Balance(t, "receivable:b"))
	require.Equal(t, 1000, s.Balance(t, "merchant"))
	s.RequireInvariants(t)
}

func TestARefundThatFailsTakesNothingMore(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.receivable(t)
	s.pay(t, "other", 1000, "")
	s.bank.refuse["refund"] = &channel.Rejection{Code: "NO"}
	s.refund(t, "r", 300)
	require.Equal(t, refund.Failed, s.advance(t, "r"))
	require.Equal(t, []string{"r a 90 VOID", "r b 210 VOID"}, s.returns(t))
	s.requireBooks(t, 0, 645, 0)

	// The channel was wrong: it has refunded after all.
	s.report(t, refundBody("refund.succeeded", "bank-r", channel.Refund{TransactionID: "tx-o", OutTradeNo: "o", OutRefundNo: "r", Amount: 300, Currency: "CNY"}))
	s.settleAsked(t)
	require.Equal(t, []string{"r a 90 VOID", "r b 210 VOID", "r a 90 OWED", "r b 210 OWED"}, s.returns(t))
	require.Equal(t, 90, s.Balance(t, "receivable:a"))
	s.requireBooks(t, 0, 345, 0)
}

// settleAsked books what is delivered, asking the channel where an event cannot be booked on its own word.
func (s *sharer) settleAsked(t *testing.T) {
	t.Helper()
	s.bank.refuse = map[string]error{}
	for _, d := range s.driver.Take() {
		applied, err := s.books.Apply(t.Context(), d.EventID)
		require.NoError(t, err)
		if applied.Ask == "" {
			continue
		}
		s.bank.refunds["r"] = &channel.RefundStanding{State: channel.RefundSucceeded, RefundID: "bank-r",
			Body: refundBody("refund.succeeded", "bank-r", channel.Refund{TransactionID: "tx-o", OutTradeNo: "o", OutRefundNo: "r", Amount: 300, Currency: "CNY"})}
		_, err = s.Refunds.AskAbout(t.Context(), d.EventID)
		require.NoError(t, err)
		_, err = s.books.Apply(t.Context(), d.EventID)
		require.NoError(t, err)
	}
}

func TestARefundMadeInTheChannelsConsoleIsOwedByReceivers(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.pay(t, "other", 1000, "")
	s.report(t, refundBody("refund.succeeded", "console-1", channel.Refund{TransactionID: "tx-o", OutTradeNo: "o", OutRefundNo: "made-there", Amount: 645, Currency: "CNY"}))
	require.Equal(t, []payment.Outcome{payment.RefundAdopted}, s.driver.Book(t, s.books))
	require.Equal(t, 194, s.Balance(t, "receivable:a"))
	require.Equal(t, 451, s.Balance(t, "receivable:b"))
	require.Equal(t, 355, s.Balance(t, "merchant"))
	s.requireBooks(t, 0, 0, 0)
}

func TestARefundWaitsForResultsOfASharing(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	_, _, err := s.Refunds.Create(t.Context(), refund.Request{TenantID: s.Tenant, OutTradeNo: "o", OutRefundNo: "r", Amount: 100})
	require.ErrorIs(t, err, share.ErrOpen)
	require.Zero(t, s.Count(t, "SELECT count(*) FROM refunds"))
	s.call(t, "s")
	s.refund(t, "r", 100)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, 270, s.Balance(t, "receiver:a"))
	require.Equal(t, 630, s.Balance(t, "merchant"))
}

func TestARefundBeforeASharingTakesNothingBack(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 100, "")
	s.refund(t, "early", 50)
	require.Equal(t, refund.Succeeded, s.advance(t, "early"))
	sh := s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("a", 30, "b", 70)})
	require.Equal(t, map[string]int64{"a": 15, "b": 35}, legAmounts(sh), "of what is left")
	s.call(t, "s")
	s.refund(t, "late", 25)
	require.Equal(t, refund.Succeeded, s.advance(t, "late"))
	require.Equal(t, []string{"late a 8 RETURNED", "late b 17 RETURNED"}, s.returns(t), "half of it; the tie goes to a")
	s.refund(t, "last", 25)
	require.Equal(t, refund.Succeeded, s.advance(t, "last"))
	require.Equal(t, map[string]int64{"a": 15, "b": 35}, s.bank.gave)
	s.requireBooks(t, 0, 0, 0)
}

func TestAReceiverWhoIsPaidAfterTheMoneyWentBackOwesIt(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.pay(t, "other", 5000, "")
	s.bank.pending = true
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.call(t, "s")
	s.report(t, refundBody("refund.succeeded", "console-1", channel.Refund{TransactionID: "tx-o", OutTradeNo: "o", OutRefundNo: "made-there", Amount: 500, Currency: "CNY"}))
	s.book(t, payment.RefundAdopted)
	s.requireBooks(t, 300, 0, 300)
	s.report(t, results(t, "bank-s", "s", "a", 300, "SUCCEEDED"))
	s.book(t, payment.Shared)
	require.Equal(t, 150, s.Balance(t, "receiver:a"))
	require.Equal(t, 150, s.Balance(t, "receivable:a"))
	s.requireBooks(t, 0, 150, 0)
}

// Receivers give back for a refund that is refused then; another one takes its place, and needs nothing of them. Once the first
// has gone out after all, they owe for both: what they gave for the first was used up by the second.
func TestARefundThatWentOutAfterAllTakesBackOnceMore(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.bank.refuse["refund"] = &channel.Rejection{Code: "NO"}
	s.refund(t, "r", 300)
	require.Equal(t, refund.Failed, s.advance(t, "r"))
	require.Equal(t, []string{"r a 90 RETURNED", "r b 210 RETURNED"}, s.returns(t))
	s.bank.refuse = map[string]error{}
	require.Zero(t, s.refund(t, "instead", 300).Awaited)
	require.Equal(t, refund.Succeeded, s.advance(t, "instead"))

	s.report(t, refundBody("refund.succeeded", "bank-r", channel.Refund{TransactionID: "tx-o", OutTradeNo: "o", OutRefundNo: "r", Amount: 300, Currency: "CNY"}))
	s.settleAsked(t)
	require.Equal(t, []string{"r a 90 RETURNED", "r b 210 RETURNED", "r a 90 OWED", "r b 210 OWED"}, s.returns(t))
	require.Equal(t, 90, s.Balance(t, "receivable:a"))
	require.Equal(t, 210, s.Balance(t, "receivable:b"))
	require.Equal(t, -300, s.Balance(t, "receivable"), "the merchant has nothing to pay it from")
	require.Equal(t, 600, s.Count(t, "SELECT refunded_amount FROM payments WHERE out_trade_no = 'o'"))
	s.requireBooks(t, 0, 45, 0)

	_, err := s.shares.Collect(t.Context(), s.Tenant, "s", "")
	require.NoError(t, err)
	sh := s.get(t, "s")
	open, err := s.shares.AskOwed(t.Context(), sh.ID)
	require.NoError(t, err)
	require.False(t, open)
	require.Equal(t, map[string]int64{"a": 180, "b": 420}, s.bank.gave)
	s.requireBooks(t, 0, 45, 0)
}
