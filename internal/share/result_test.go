package share_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/testhouse"
)

var (
	order    = testhouse.Order
	violated = database.Violated
)

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// call has the channel told or asked once, and everything booked that it answers.
func (s *sharer) call(t *testing.T, number string) share.Progress {
	t.Helper()
	_, err := s.shares.Call(t.Context(), s.get(t, number).ID)
	require.NoError(t, err)
	s.driver.Book(t, s.books)
	p, err := s.shares.Look(t.Context(), s.get(t, number).ID)
	require.NoError(t, err)
	return p
}

// callInVain has the channel called without a usable answer.
func (s *sharer) callInVain(t *testing.T, number string) {
	t.Helper()
	_, err := s.shares.Call(t.Context(), s.get(t, number).ID)
	require.Error(t, err)
	require.Empty(t, s.driver.Take())
}

// move books a movement of the tenant by hand.
func (s *sharer) move(t *testing.T, from, to string, amount int64) {
	t.Helper()
	require.NoError(t, database.InTx(t.Context(), s.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: s.Tenant, Key: "move:" + from + to, Kind: "posting", Lines: []ledger.Line{
			{Code: from, Currency: "CNY", Amount: -amount, AllowNegative: from == "bank"}, {Code: to, Currency: "CNY", Amount: amount, AllowNegative: to == "bank"},
		}})
		return err
	}))
}

// results is a message of the standard channel about legs: account, amount and state by turns.
func results(t *testing.T, shareID, number string, legs ...any) []byte {
	t.Helper()
	data := standard.Data{ShareID: shareID, OutOrderNo: number, Currency: "CNY"}
	for i := 0; i < len(legs); i += 3 {
		data.Receivers = append(data.Receivers, standard.Receiver{Account: legs[i].(string), Amount: int64(legs[i+1].(int)), State: legs[i+2].(string)})
	}
	body, err := json.Marshal(standard.Message{Type: "share.result", Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: data})
	require.NoError(t, err)
	return body
}

func (s *sharer) report(t *testing.T, body []byte) []payment.Reported {
	t.Helper()
	reported, err := s.entry.Report(t.Context(), s.acct, body, s.Clock.Now())
	require.NoError(t, err)
	return reported
}

func TestEachPaidLegIsOneJournal(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 645, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("a", 30, "b", 70)})
	p := s.call(t, "s")
	require.Equal(t, share.Progress{State: share.Succeeded, Ended: true, Channel: "bank"}, p)
	require.Equal(t, []string{"share s"}, s.bank.called())
	require.Equal(t, 194, s.Balance(t, "receiver:a"))
	require.Equal(t, 451, s.Balance(t, "receiver:b"))
	require.Zero(t, s.Balance(t, "merchant"))
	sh := s.get(t, "s")
	require.Equal(t, "bank-s", sh.ShareID)
	require.NotNil(t, sh.EndedAt)
	require.Equal(t, "share:s:a", *sh.Legs[0].JournalKey)
	s.requireBooks(t, 0, 645, 0)
	s.call(t, "s")
	require.Equal(t, []string{"share s"}, s.bank.called(), "what has ended is not asked about")
}

func TestAClosedLegStaysWithTheMerchant(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.closed["b"] = "the account is closed"
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300, "b", 200, "c", 100)})
	s.call(t, "s")
	state, legs := s.states(t, "s")
	require.Equal(t, share.Partial, state)
	require.Equal(t, map[string]share.LegState{"a": share.LegSucceeded, "b": share.LegClosed, "c": share.LegSucceeded}, legs)
	require.Equal(t, "the account is closed", s.get(t, "s").Legs[1].Reason)
	require.Equal(t, 600, s.Balance(t, "merchant"))
	require.Zero(t, s.Balance(t, "receiver:b"))
	s.requireBooks(t, 0, 400, 0)
	s.share(t, share.Request{OutOrderNo: "rest", Receivers: amounts("a", 600)})
	s.requireBooks(t, 600, 400, 600)
}

func TestASharingThatTheChannelClosesWholly(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.closed["a"] = "no"
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.call(t, "s")
	state, _ := s.states(t, "s")
	require.Equal(t, share.Failed, state)
	_, err := s.shares.Retry(t.Context(), s.Tenant, "s")
	require.ErrorIs(t, err, share.ErrNotRefused, "the channel has ended it: its number is used")
	s.requireBooks(t, 0, 0, 0)
}

func TestResultsThatComeOneByOne(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.pending = true
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300, "b", 200)})
	require.Equal(t, share.Progress{State: share.Processing, Channel: "bank"}, s.call(t, "s"))
	s.report(t, results(t, "bank-s", "s", "a", 300, "SUCCEEDED"))
	s.book(t, payment.Shared)
	s.requireBooks(t, 200, 300, 200)
	state, legs := s.states(t, "s")
	require.Equal(t, share.Processing, state)
	require.Equal(t, map[string]share.LegState{"a": share.LegSucceeded, "b": share.LegPending}, legs)
	s.report(t, results(t, "bank-s", "s", "a", 300, "SUCCEEDED", "b", 200, "CLOSED"))
	s.book(t, payment.ShareClosed)
	s.requireBooks(t, 0, 300, 0)
}

func TestAnAnswerThatNeverCameIsAskedForUnderTheSameNumber(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.bank.fail["share"] = errNoAnswer // it is done, and nobody is told
	s.callInVain(t, "s")
	state, _ := s.states(t, "s")
	require.Equal(t, share.Unknown, state)
	s.requireBooks(t, 300, 0, 300)
	s.bank.refuse["query"] = errNoAnswer
	s.callInVain(t, "s")
	s.bank.refuse = map[string]error{}
	require.True(t, s.call(t, "s").Ended)
	require.Equal(t, []string{"share s", "query s", "query s"}, s.bank.called(), "sent once")
	s.requireBooks(t, 0, 300, 0)
}

func TestACallThatNeverArrivedIsSentAgainUnderTheSameNumber(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.bank.refuse["share"] = errNoAnswer
	s.callInVain(t, "s")
	s.bank.refuse = map[string]error{}
	require.True(t, s.call(t, "s").Ended)
	require.Equal(t, []string{"share s", "query s", "share s"}, s.bank.called())
	require.Len(t, s.bank.there, 1)
	s.requireBooks(t, 0, 300, 0)
}

func TestARefusalAfterAnUnknownCallIsBelievedOnlyWhenTheChannelHasNothing(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.bank.fail["share"] = errNoAnswer
	s.callInVain(t, "s")
	s.bank.fail = map[string]error{}
	s.bank.refuse["share"] = &channel.Rejection{Code: "NO_AUTH", Detail: "not any more"}
	require.True(t, s.call(t, "s").Ended)
	state, _ := s.states(t, "s")
	require.Equal(t, share.Succeeded, state, "it was done before")
	s.requireBooks(t, 0, 300, 0)
}

func TestARefusalSoonAfterAnUnknownCallFreesNothing(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.bank.refuse["share"] = errNoAnswer // it may be on its way
	s.callInVain(t, "s")
	s.bank.refuse["share"] = &channel.Rejection{Code: "NO", Detail: "not so"}
	s.callInVain(t, "s")
	state, _ := s.states(t, "s")
	require.Equal(t, share.Unknown, state)
	require.Contains(t, s.get(t, "s").Reason, "may have arrived")
	s.requireBooks(t, 300, 0, 300)
	s.Clock.Pass(time.Minute)
	require.True(t, s.call(t, "s").Ended)
	require.Equal(t, share.Refused, s.get(t, "s").State)
	require.Equal(t, 0, s.Count(t, "SELECT held FROM ledger_accounts WHERE tenant_id = $1 AND code = 'merchant'", s.Tenant))
}

func TestARefusalFreesEverythingAndIsTakenUpAgainUnderItsNumber(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300), Finish: true})
	s.bank.refuse["share"] = &channel.Rejection{Code: "NO_RECEIVER", Detail: "add the receiver first"}
	require.True(t, s.call(t, "s").Ended)
	sh := s.get(t, "s")
	require.Equal(t, share.Refused, sh.State)
	require.Contains(t, sh.Reason, "add the receiver first")
	s.requireBooks(t, 0, 0, 0)

	s.share(t, share.Request{OutOrderNo: "other", Receivers: amounts("a", 800)})
	_, err := s.shares.Retry(t.Context(), s.Tenant, "s")
	require.ErrorIs(t, err, share.ErrExceedsLeft, "what was freed may be gone")
	require.Equal(t, share.Refused, s.get(t, "s").State)
	require.True(t, s.call(t, "other").Ended) // refused as well
	s.bank.refuse = map[string]error{}
	s.driver.TakeShares()

	retried, err := s.shares.Retry(t.Context(), s.Tenant, "s")
	require.NoError(t, err)
	require.Equal(t, share.Pending, retried.State)
	require.Len(t, s.driver.TakeShares(), 1)
	s.requireBooks(t, 300, 0, 300)
	require.True(t, s.call(t, "s").Ended)
	require.Len(t, s.bank.there, 1)
	require.NotNil(t, s.bank.there["s"], "one number")
	s.requireBooks(t, 0, 300, 0)
	again, err := s.shares.Retry(t.Context(), s.Tenant, "s")
	require.NoError(t, err)
	require.Equal(t, share.Succeeded, again.State)
	require.Empty(t, s.driver.TakeShares(), "nothing is to be done")
}

func TestAReceiverPaidAfterARefusalIsBookedWhateverIsLeft(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.refuse["share"] = &channel.Rejection{Code: "BUSY", Detail: "so it said"}
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300, "b", 200)})
	s.call(t, "s")
	s.report(t, results(t, "x", "s", "a", 300, "SUCCEEDED"))
	s.book(t, payment.Shared)
	state, legs := s.states(t, "s")
	require.Equal(t, share.Partial, state)
	require.Equal(t, map[string]share.LegState{"a": share.LegSucceeded, "b": share.LegClosed}, legs)
	s.requireBooks(t, 0, 300, 0)

	s.share(t, share.Request{OutOrderNo: "all", Receivers: amounts("c", 700)})
	s.report(t, results(t, "x", "s", "b", 200, "SUCCEEDED"))
	s.book(t, payment.Shared)
	require.Equal(t, -200, s.Balance(t, "receivable"), "nothing of the payment is left: the merchant owes it")
	require.Equal(t, 200, s.Balance(t, "receiver:b"))
	s.requireBooks(t, 700, 500, 700)
	state, _ = s.states(t, "s")
	require.Equal(t, share.Succeeded, state)

	// The other sharing is refused: its part is free again, and the merchant owes nothing any more.
	require.True(t, s.call(t, "all").Ended)
	require.Zero(t, s.Balance(t, "receivable"))
	require.Equal(t, 500, s.Balance(t, "merchant"))
	require.Zero(t, s.Count(t, "SELECT shared_excess FROM payments WHERE out_trade_no = 'o'"))
	s.requireBooks(t, 0, 500, 0)

	// All of it goes back: both receivers give back what they got, to the unit.
	s.refund(t, "r", 1000)
	require.Equal(t, refund.Succeeded, s.advance(t, "r"))
	require.Equal(t, map[string]int64{"a": 300, "b": 200}, s.bank.gave)
	require.Zero(t, s.Balance(t, "merchant"))
	s.requireBooks(t, 0, 0, 0)
}

func TestAReceiverPaidAfterARefusalWithoutMoneyOnTheAccount(t *testing.T) {
	t.Parallel()
	refusedThenPaid := func(t *testing.T, between func(s *sharer)) *sharer {
		t.Helper()
		s := newSharer(t, 1000, "")
		s.bank.refuse["share"] = &channel.Rejection{Code: "BUSY", Detail: "so it said"}
		s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 600)})
		s.call(t, "s")
		between(s)
		for range 2 {
			s.report(t, results(t, "x", "s", "a", 600, "SUCCEEDED"))
		}
		s.book(t, payment.Shared)
		require.Zero(t, s.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'PARKED'"))
		return s
	}
	t.Run("the merchant has spent it", func(t *testing.T) {
		t.Parallel()
		s := refusedThenPaid(t, func(s *sharer) { s.move(t, "merchant", "bank", 900) })
		require.Zero(t, s.Balance(t, "merchant"))
		require.Equal(t, -500, s.Balance(t, "receivable"))
		s.requireBooks(t, 0, 600, 0)
	})
	t.Run("half has gone back to the payer", func(t *testing.T) {
		t.Parallel()
		s := refusedThenPaid(t, func(s *sharer) {
			s.refund(t, "r", 500)
			require.Equal(t, refund.Succeeded, s.advance(t, "r"))
		})
		require.Equal(t, 300, s.Balance(t, "receivable:a"), "its part of what went back")
		require.Equal(t, 300, s.Balance(t, "receiver:a"))
		require.Zero(t, s.Balance(t, "merchant"))
		require.Equal(t, -100, s.Balance(t, "receivable"), "the merchant has 500 left for 600")
		s.requireBooks(t, 0, 300, 0)
		// What the receiver gives back is set off first.
		_, err := s.shares.Collect(t.Context(), s.Tenant, "s", "")
		require.NoError(t, err)
		open, err := s.shares.AskOwed(t.Context(), s.get(t, "s").ID)
		require.NoError(t, err)
		require.False(t, open)
		require.Zero(t, s.Balance(t, "receivable"))
		require.Equal(t, 200, s.Balance(t, "merchant"))
		s.requireBooks(t, 0, 300, 0)
	})
	t.Run("all has gone back to the payer", func(t *testing.T) {
		t.Parallel()
		s := refusedThenPaid(t, func(s *sharer) {
			s.refund(t, "r", 1000)
			require.Equal(t, refund.Succeeded, s.advance(t, "r"))
		})
		require.Equal(t, 600, s.Balance(t, "receivable:a"))
		require.Equal(t, -600, s.Balance(t, "receivable"))
		s.requireBooks(t, 0, 0, 0)
	})
}

func TestTwoThreadsBookOneResultThreeMillisecondsApart(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.pending = true
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.call(t, "s")
	// One fact under two event keys, as two reports with different numbers of the channel's would be.
	for _, id := range []string{"bank-s", "another-id"} {
		s.report(t, results(t, id, "s", "a", 300, "SUCCEEDED"))
	}
	deliveries := s.driver.Take()
	require.Len(t, deliveries, 2)
	apply(t, s, deliveries[0].EventID, deliveries[1].EventID)
	require.Equal(t, 300, s.Balance(t, "receiver:a"))
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM journals WHERE kind = 'profit_share'"))
	s.requireBooks(t, 0, 300, 0)

	// The same event twice.
	s.share(t, share.Request{OutOrderNo: "s2", Receivers: amounts("a", 100)})
	s.call(t, "s2")
	s.report(t, results(t, "bank-s2", "s2", "a", 100, "SUCCEEDED"))
	id := s.driver.Take()[0].EventID
	apply(t, s, id, id)
	require.Equal(t, 400, s.Balance(t, "receiver:a"))
	s.requireBooks(t, 0, 400, 0)
}

// The unique key alone: two transactions that look at nothing before they post.
func TestTheJournalsKeyAloneHoldsThreeMillisecondsApart(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	sh := s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	var mu sync.Mutex
	posted := 0
	threeMillisecondsApart(func() {
		err := database.InTx(context.Background(), s.Engine, func(tx pgx.Tx) error {
			_, mine, err := ledger.Capture(context.Background(), tx, "share/s", 300, ledger.Journal{
				TenantID: sh.TenantID, Key: "share:s:a", Kind: share.KindShare, Lines: []ledger.Line{{Code: "receiver:a", Currency: "CNY", Amount: 300}},
			})
			if mine {
				mu.Lock()
				posted++
				mu.Unlock()
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, 1, posted)
	require.Equal(t, 300, s.Balance(t, "receiver:a"))
}

func apply(t *testing.T, s *sharer, one, two int64) {
	t.Helper()
	ids := make(chan int64, 2)
	ids <- one
	ids <- two
	threeMillisecondsApart(func() {
		if _, err := s.books.Apply(context.Background(), <-ids); err != nil {
			t.Error(err)
		}
	})
}

// threeMillisecondsApart runs do twice, the second time before the first can have ended.
func threeMillisecondsApart(do func()) {
	var both sync.WaitGroup
	both.Go(do)
	<-time.After(3 * time.Millisecond)
	both.Go(do)
	both.Wait()
}

func TestAResultThatOverturnsABookedOneIsAConflict(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.call(t, "s")
	s.report(t, results(t, "bank-s", "s", "a", 300, "CLOSED"))
	require.Equal(t, payment.Conflict, s.report(t, results(t, "other", "s", "a", 300, "CLOSED"))[0].Outcome)
	require.Empty(t, s.driver.Take())
	require.Equal(t, 2, s.Count(t, "SELECT count(*) FROM channel_events WHERE outcome = 'CONFLICT'"))
	s.requireBooks(t, 0, 300, 0)
}

func TestWhatDoesNotFitIsParked(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.pending = true
	s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("a", 999_999, "b", 1, "c", 1), MerchantRatio: new(int64)})
	s.call(t, "s")
	for name, c := range map[string]struct {
		body []byte
		want payment.Outcome
	}{
		"an unknown sharing":   {results(t, "x", "nobody", "a", 1, "SUCCEEDED"), payment.UnknownShare},
		"an unknown receiver":  {results(t, "x", "s", "z", 1, "SUCCEEDED"), payment.ContextMismatch},
		"a wrong amount":       {results(t, "x", "s", "a", 999, "SUCCEEDED"), payment.AmountMismatch},
		"an open result":       {results(t, "x", "s", "a", 1000, "PROCESSING"), payment.Stale},
		"who was sent nothing": {results(t, "y", "s", "b", 1, "SUCCEEDED"), payment.ContextMismatch},
	} {
		require.Equal(t, c.want, s.report(t, c.body)[0].Outcome, name)
	}
	require.Empty(t, s.driver.Take())
	// A right report under the same key takes the place of a wrong one.
	s.report(t, results(t, "x", "s", "a", 1000, "SUCCEEDED"))
	s.book(t, payment.Shared)
	s.requireBooks(t, 0, 1000, 0)
}

func TestAResultThatIsThereBeforeItsSharingIsMatched(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	body := results(t, "bank-s", "s", "a", 300, "SUCCEEDED")
	require.Equal(t, payment.UnknownShare, s.report(t, body)[0].Outcome)
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.book(t, payment.Shared)
	state, _ := s.states(t, "s")
	require.Equal(t, share.Succeeded, state)
	s.requireBooks(t, 0, 300, 0)
}

func TestAChannelThatCannotBeAskedEndsLegsByCallback(t *testing.T) {
	t.Parallel()
	driver := &testhouse.Deliveries{}
	h := testhouse.New(t, driver)
	h.Create(t, order("o", 645))
	h.Report(t, testhouse.Paid(t, "tx", "o", 645))
	driver.Book(t, h.Books)
	sh, _, err := h.Shares.Create(t.Context(), share.Request{TenantID: h.Tenant, OutTradeNo: "o", OutOrderNo: "s", Receivers: ratios("a", 30, "b", 70)})
	require.NoError(t, err)
	p, err := h.Shares.Call(t.Context(), sh.ID)
	require.NoError(t, err)
	require.Equal(t, share.Progress{State: share.Pending}, p)
	_, err = h.Entry.Report(t.Context(), h.Account, results(t, "id", "s", "b", 451, "SUCCESS", "a", 194, "SUCCESS"), h.Clock.Now())
	require.NoError(t, err)
	deliveries := driver.Take()
	require.Len(t, deliveries, 2)
	for _, d := range deliveries {
		require.Equal(t, payment.Flow{Row: sh.ID, Number: "s"}, d.Flow, "they go to the sharing's flow")
		_, err := h.Books.Apply(t.Context(), d.EventID)
		require.NoError(t, err)
	}
	got, err := share.Find(t.Context(), h.Engine, h.Tenant, "s")
	require.NoError(t, err)
	require.Equal(t, share.Succeeded, got.State)
	require.Equal(t, 194, h.Balance(t, "receiver:a"))
	h.RequireInvariants(t)
}

func TestAReceiversAccountIsNamedInTheLedgerWhateverItHolds(t *testing.T) {
	t.Parallel()
	require.Equal(t, "receiver:1900000109", share.ReceiverCode("1900000109"))
	require.Equal(t, "receiver:oUpF8uMuAJO_M2pxb1Q9zNjWeS6o", share.ReceiverCode("oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"))
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("shop@example.com", 1, "商户 一", 2)})
	require.True(t, s.call(t, "s").Ended)
	require.True(t, ledger.ValidCode(share.ReceiverCode("shop@example.com")))
	require.Equal(t, 1, s.Balance(t, share.ReceiverCode("shop@example.com")))
	require.Equal(t, 2, s.Balance(t, share.ReceiverCode("商户 一")))
	s.requireBooks(t, 0, 3, 0)
}

func TestARefusedSharingThatTheChannelReportsAsClosedStaysRefused(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.refuse["share"] = &channel.Rejection{Code: "BUSY", Detail: "so it said"}
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	s.call(t, "s")
	s.report(t, results(t, "x", "s", "a", 300, "CLOSED"))
	s.book(t, payment.ShareClosed)
	require.Equal(t, share.Refused, s.get(t, "s").State, "nothing was paid, and it can be taken up again")
	s.requireBooks(t, 0, 0, 0)
}
