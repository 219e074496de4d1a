package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/stock"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
)

// story is a house with accounts a and b of 1000 each and five pieces of a book.
type story struct {
	*testhouse.House
	driver *testhouse.Deliveries
}

func newStory(t *testing.T) story {
	t.Helper()
	driver := &testhouse.Deliveries{}
	s := story{testhouse.New(t, driver), driver}
	require.NoError(t, database.InTx(t.Context(), s.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: s.Tenant, Key: "fund", Kind: "posting", Lines: []ledger.Line{
			{Code: "bank", Currency: "CNY", Amount: -2000, AllowNegative: true}, {Code: "a", Currency: "CNY", Amount: 1000}, {Code: "b", Currency: "CNY", Amount: 1000},
		}})
		return err
	}))
	require.NoError(t, database.InTenantTx(t.Context(), s.API, s.Tenant, func(tx pgx.Tx) error {
		_, err := stock.Put(t.Context(), tx, s.Tenant, "book", 5, 0)
		return err
	}))
	return s
}

func (s story) pay(key string, amount int64, more ...transfer.Leg) transfer.Request {
	return transfer.Request{TenantID: s.Tenant, IdempotencyKey: key, Legs: append([]transfer.Leg{
		{Type: transfer.LedgerLeg, Account: "a", Amount: -amount, Currency: "CNY"},
		{Type: transfer.LedgerLeg, Account: "b", Amount: amount, Currency: "CNY"},
	}, more...)}
}

func book(quantity int64) transfer.Leg {
	return transfer.Leg{Type: transfer.StockLeg, SKU: "book", Quantity: quantity}
}

// stands is what there is: a's balance and hold, b's balance, and the books on hand and reserved.
func (s story) stands(t *testing.T) string {
	t.Helper()
	var text string
	require.NoError(t, s.Owner.QueryRow(t.Context(), `
SELECT format('a %s held %s, b %s, books %s reserved %s', a.balance, a.held, b.balance, k.on_hand, k.reserved)
  FROM ledger_accounts a, ledger_accounts b, stock k
 WHERE a.tenant_id = $1 AND b.tenant_id = $1 AND k.tenant_id = $1 AND a.code = 'a' AND b.code = 'b'`, s.Tenant).Scan(&text))
	return text
}

const untouched = "a 1000 held 0, b 1000, books 5 reserved 0"

func (s story) begin(t *testing.T, r transfer.Request) transfer.Transfer {
	t.Helper()
	r.Mode = transfer.TCC
	got, created, err := s.Transfers.Create(t.Context(), r)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, transfer.Trying, got.State)
	return got
}

// beginUntried begins a transfer while its payer has nothing, so that it cannot be tried as it is made.
func (s story) beginUntried(t *testing.T, r transfer.Request) transfer.Transfer {
	t.Helper()
	ctx := t.Context()
	inTx := func(do func(pgx.Tx) error) { require.NoError(t, database.InTx(ctx, s.Engine, do)) }
	inTx(func(tx pgx.Tx) error {
		_, err := ledger.Place(ctx, tx, ledger.Hold{TenantID: s.Tenant, Key: "all", Code: "a", Currency: "CNY", Amount: 1000})
		return err
	})
	got := s.begin(t, r)
	require.False(t, got.Tried)
	inTx(func(tx pgx.Tx) error {
		_, err := ledger.Release(ctx, tx, s.Tenant, "all")
		return err
	})
	return got
}

func TestADirectTransferIsOneJournalUnderItsName(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	first, created, err := s.Transfers.Create(t.Context(), s.pay("k", 100, book(2)))
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, transfer.Confirmed, first.State)
	require.Equal(t, transfer.Direct, first.Mode)
	const done = "a 900 held 0, b 1100, books 3 reserved 0"
	require.Equal(t, done, s.stands(t))

	again, created, err := s.Transfers.Create(t.Context(), s.pay("k", 100, book(2)))
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.ID, again.ID)
	_, _, err = s.Transfers.Create(t.Context(), s.pay("k", 101))
	require.ErrorIs(t, err, transfer.ErrKeyReused)
	require.Equal(t, done, s.stands(t))
	require.Empty(t, s.driver.TakeTransfers(), "no flow for what needs none")
	s.RequireInvariants(t)
}

func TestARefusalIsAnOutcomeAndIsRepeated(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for key, c := range map[string]struct {
		request transfer.Request
		code    string
	}{
		"money": {s.pay("money", 1001, book(1)), transfer.InsufficientFunds},
		"goods": {s.pay("goods", 1, book(6)), transfer.OutOfStock},
	} {
		for _, created := range []bool{true, false} {
			got, fresh, err := s.Transfers.Create(t.Context(), c.request)
			require.NoError(t, err, key)
			require.Equal(t, created, fresh)
			require.Equal(t, transfer.Cancelled, got.State)
			require.Equal(t, c.code, *got.Failure)
		}
	}
	require.Equal(t, untouched, s.stands(t))
	s.RequireInvariants(t)
}

func TestTwoNamesOfOneTransfer(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	request := func(key, reference string, amount int64) transfer.Request {
		r := s.pay(key, amount)
		r.Reference = reference
		return r
	}
	first, _, err := s.Transfers.Create(t.Context(), request("k1", "r", 100))
	require.NoError(t, err)
	second, created, err := s.Transfers.Create(t.Context(), request("k2", "r", 100))
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.ID, second.ID)
	_, _, err = s.Transfers.Create(t.Context(), request("k3", "r", 7))
	require.ErrorIs(t, err, transfer.ErrReferenceReused)
	_, _, err = s.Transfers.Create(t.Context(), request("k1", "r2", 100))
	require.ErrorIs(t, err, transfer.ErrKeyReused)
	// The second key names the transfer too, from now on.
	_, _, err = s.Transfers.Create(t.Context(), s.pay("k2", 7))
	require.ErrorIs(t, err, transfer.ErrKeyReused)
	_, _, err = s.Transfers.Create(t.Context(), request("k2", "r9", 100))
	require.ErrorIs(t, err, transfer.ErrKeyReused)
	require.Equal(t, "a 900 held 0, b 1100, books 5 reserved 0", s.stands(t))
}

func TestManyAtOnceUnderOneKeyAreOne(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	var fresh atomic.Int64
	var group errgroup.Group
	for range 30 {
		group.Go(func() error {
			_, created, err := s.Transfers.Create(context.Background(), s.pay("k", 100))
			if created {
				fresh.Add(1)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(1), fresh.Load())
	require.Equal(t, "a 900 held 0, b 1100, books 5 reserved 0", s.stands(t))
}

func TestManyAtOnceUnderOneKeyAreMadeAndTriedOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	var tried atomic.Int64
	var group errgroup.Group
	for i := range 60 {
		group.Go(func() error {
			r := s.pay(fmt.Sprint("k", i%10), 100) // ten of them would take all that there is
			r.Mode = transfer.TCC
			got, created, err := s.Transfers.Create(context.Background(), r)
			if created && got.Tried {
				tried.Add(1)
			}
			if err == nil && created != got.Tried {
				err = fmt.Errorf("created %t, tried %t", created, got.Tried)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(10), tried.Load())
	require.Equal(t, "a 1000 held 1000, b 1000, books 5 reserved 0", s.stands(t))
	s.RequireInvariants(t)
}

// A guard of the database that refuses the try must not refuse the making: the flow is told why, and the answer is kept.
func TestWhatAGuardRefusesToTryIsMadeAllTheSame(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	const least = -1 << 62
	require.NoError(t, database.InTx(t.Context(), s.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: s.Tenant, Key: "drain", Kind: "posting", Lines: []ledger.Line{
			{Code: "credit", Currency: "CNY", Amount: least + 54, AllowNegative: true}, {Code: "sink", Currency: "CNY", Amount: -(least + 54)},
		}})
		return err
	}))
	r := s.pay("k", 100)
	r.Legs[0].Account = "credit"
	got := s.begin(t, r)
	require.False(t, got.Tried)
	p, err := s.Transfers.Try(t.Context(), got.ID)
	require.NoError(t, err)
	require.Equal(t, transfer.AmountOutOfRange, p.Failure)
}

// Hand-written SQL cannot confirm without a decision, nor go back.
func TestTheDatabaseRefusesWrongMovesOfATransfer(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	tried, done := s.begin(t, s.pay("tried", 100)), s.begin(t, s.pay("done", 100))
	_, err := s.Transfers.Settle(t.Context(), done.ID, "")
	require.NoError(t, err)
	for _, c := range []struct {
		id  int64
		set string
	}{
		{tried.ID, "state = 'CONFIRMED', ended_at = now()"},
		{tried.ID, "state = 'CONFIRMED', decided_at = now() - interval '1 s', ended_at = now()"},
		{tried.ID, "state = 'CANCELLED', decided_at = now(), ended_at = now()"},
		{done.ID, "state = 'CANCELLED'"},
		{done.ID, "state = 'TRYING', ended_at = NULL"},
	} {
		_, err := s.Engine.Exec(t.Context(), "UPDATE transfers SET "+c.set+" WHERE id = $1", c.id)
		require.True(t, database.Violated(err, "transfer_move"), "%s: %v", c.set, err)
	}
}

func TestCrossedTransfersDoNotDeadlockAndNoneIsAbandoned(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(12)
	for i := range 200 {
		group.Go(func() error {
			r := s.pay(fmt.Sprint("k", i), 1)
			if i%2 == 1 {
				r.Legs[0].Account, r.Legs[1].Account = "b", "a"
			}
			r.Mode = []transfer.Mode{transfer.Direct, transfer.TCC}[i/2%2]
			got, _, err := s.Transfers.Create(ctx, r)
			if err != nil || got.Mode == transfer.Direct {
				return err
			}
			if _, err := s.Transfers.Try(ctx, got.ID); err != nil {
				return err
			}
			failure := ""
			if i%8 >= 6 {
				failure = transfer.Canceled
			}
			if i%16 < 8 {
				_, err = s.Transfers.Settle(ctx, got.ID, failure)
				return err
			}
			if _, err := s.Transfers.Decide(ctx, got.ID, failure); err != nil {
				return err
			}
			_, err = s.Transfers.End(ctx, got.ID, true)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Zero(t, s.Count(t, "SELECT count(*) FROM transfers WHERE ended_at IS NULL"))
	require.Equal(t, "a 1000 held 0, b 1000, books 5 reserved 0", s.stands(t))
	s.RequireInvariants(t)
}

// The steps of a flow in bad orders, of money with goods and of money alone. What stands is compared after every step.
func TestTheStepsOfATransferInEveryOrder(t *testing.T) {
	t.Parallel()
	const (
		begun     = "nothing"
		held      = "held"
		confirmed = "done"
	)
	stands := map[string]map[string]string{
		"goods":       {begun: untouched, held: "a 1000 held 100, b 1000, books 5 reserved 2", confirmed: "a 900 held 0, b 1100, books 3 reserved 0"},
		"money alone": {begun: untouched, held: "a 1000 held 100, b 1000, books 5 reserved 0", confirmed: "a 900 held 0, b 1100, books 5 reserved 0"},
	}
	for name, steps := range map[string][]string{
		"try, confirm":                         {"try:" + held, "decide:" + held, "end:" + confirmed},
		"each step twice":                      {"try:" + held, "try:" + held, "decide:" + held, "decide:" + held, "end:" + confirmed, "end:" + confirmed},
		"try, cancel":                          {"try:" + held, "cancel:" + held, "end:" + begun, "end:" + begun},
		"cancel before try, then a late try":   {"cancel:" + begun, "try:" + begun, "end:" + begun, "try:" + begun},
		"cancel after the decision":            {"try:" + held, "decide:" + held, "cancel:" + held, "end:" + confirmed},
		"decide after a cancel":                {"try:" + held, "cancel:" + held, "decide:" + held, "end:" + begun},
		"end before any decision":              {"try:" + held, "end:" + held, "decide:" + held, "end:" + confirmed},
		"a late try after the end":             {"try:" + held, "decide:" + held, "end:" + confirmed, "try:" + confirmed},
		"try, settle":                          {"try:" + held, "settle:" + confirmed},
		"settle twice, then every other step":  {"try:" + held, "settle:" + confirmed, "settle:" + confirmed, "give up:" + confirmed, "try:" + confirmed, "cancel:" + confirmed, "end:" + confirmed},
		"settle to cancel, then every step":    {"try:" + held, "give up:" + begun, "settle:" + begun, "try:" + begun, "decide:" + begun, "end:" + begun},
		"settle to cancel what was not tried":  {"give up:" + begun, "try:" + begun, "settle:" + begun},
		"settle what was decided to confirm":   {"try:" + held, "decide:" + held, "settle:" + confirmed},
		"settle what was decided to cancel":    {"try:" + held, "cancel:" + held, "settle:" + begun, "settle:" + begun},
		"settle before try confirms nothing":   {"settle!" + begun, "try:" + held, "settle:" + confirmed},
		"a cancel that comes after the settle": {"try:" + held, "settle:" + confirmed, "cancel:" + confirmed},
	} {
		for what, stands := range stands {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				s := newStory(t)
				var more []transfer.Leg
				if what == "goods" {
					more = append(more, book(2))
				}
				got := s.beginUntried(t, s.pay("k", 100, more...))
				s.play(t, got, stands, steps)
			})
		}
	}
	// What was tried as it was made.
	for name, steps := range map[string][]string{
		"settle":                               {"settle:" + confirmed, "settle:" + confirmed, "try:" + confirmed, "give up:" + confirmed, "end:" + confirmed},
		"a repeated try":                       {"try:" + held, "try:" + held, "settle:" + confirmed},
		"decide, end":                          {"decide:" + held, "try:" + held, "end:" + confirmed},
		"give up, then a late try":             {"give up:" + begun, "try:" + begun, "settle:" + begun},
		"cancel, a late try, end":              {"cancel:" + held, "try:" + held, "end:" + begun, "try:" + begun},
		"a cancel that comes after the settle": {"settle:" + confirmed, "cancel:" + confirmed, "end:" + confirmed},
	} {
		t.Run("made and tried, "+name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			got := s.begin(t, s.pay("k", 100))
			require.True(t, got.Tried)
			require.Equal(t, stands["money alone"][held], s.stands(t))
			s.play(t, got, stands["money alone"], steps)
		})
	}
}

// play does the steps and compares what stands after each.
func (s story) play(t *testing.T, got transfer.Transfer, stands map[string]string, steps []string) {
	t.Helper()
	for _, step := range steps {
		do, after, refused := cut(step)
		var err error
		switch do {
		case "try":
			_, err = s.Transfers.Try(t.Context(), got.ID)
		case "decide":
			_, err = s.Transfers.Decide(t.Context(), got.ID, "")
		case "cancel":
			_, err = s.Transfers.Decide(t.Context(), got.ID, transfer.Canceled)
		case "end":
			_, err = s.Transfers.End(t.Context(), got.ID, true)
		case "settle":
			_, err = s.Transfers.Settle(t.Context(), got.ID, "")
		case "give up":
			_, err = s.Transfers.Settle(t.Context(), got.ID, transfer.Canceled)
		}
		if refused {
			require.ErrorIs(t, err, ledger.ErrNotTried, step)
		} else {
			require.NoError(t, err, step)
		}
		require.Equal(t, stands[after], s.stands(t), step)
	}
	s.RequireInvariants(t)
}

// cut reads "step:what stands then", or "step!what stands then" where the step must be refused.
func cut(step string) (do, after string, refused bool) {
	i := strings.IndexAny(step, ":!")
	return step[:i], step[i+1:], step[i] == '!'
}

func TestARefusedTryIsCancelledAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	got := s.begin(t, s.pay("k", 1001, book(2)))
	p, err := s.Transfers.Try(t.Context(), got.ID)
	require.NoError(t, err)
	require.Equal(t, transfer.InsufficientFunds, p.Failure)
	require.Equal(t, untouched, s.stands(t))
	p, err = s.Transfers.Decide(t.Context(), got.ID, p.Failure)
	require.NoError(t, err)
	require.Equal(t, transfer.Cancelling, p.State)
	p, err = s.Transfers.End(t.Context(), got.ID, true)
	require.NoError(t, err)
	require.Equal(t, transfer.Cancelled, p.State)
	s.RequireInvariants(t)
}

func TestConfirmAgainstCancelIsDecidedOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for round := range 50 {
		got := s.begin(t, s.pay(fmt.Sprint("k", round), 10))
		_, err := s.Transfers.Try(t.Context(), got.ID)
		require.NoError(t, err)
		var states [2]transfer.State
		var pair errgroup.Group
		for i, failure := range []string{"", transfer.Canceled} {
			pair.Go(func() error {
				p, err := s.Transfers.Decide(context.Background(), got.ID, failure)
				states[i] = p.State
				return err
			})
		}
		require.NoError(t, pair.Wait())
		require.Equal(t, states[0], states[1], "both are told the one decision")
		_, err = s.Transfers.End(t.Context(), got.ID, true)
		require.NoError(t, err)
	}
	s.RequireInvariants(t)
}

// Each of them would take all that there is: a repeat that looked at what is available, and not at its fence, would be refused.
func TestManyTriesOfOneTransferAtOnceAreOne(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]transfer.Leg{"money alone": nil, "goods": {book(5)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			got := s.beginUntried(t, s.pay("k", 1000, more...))
			var group errgroup.Group
			for range 20 {
				group.Go(func() error {
					p, err := s.Transfers.Try(context.Background(), got.ID)
					if err == nil && (p.Failure != "" || p.State != transfer.Trying) {
						err = fmt.Errorf("state %s, failure %q", p.State, p.Failure)
					}
					return err
				})
			}
			require.NoError(t, group.Wait())
			require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM holds WHERE key LIKE $1", got.GID+"#%"))
			_, err := s.Transfers.Settle(t.Context(), got.ID, "")
			require.NoError(t, err)
			s.RequireInvariants(t)
		})
	}
}

func TestSettlesAtOnceAreDecidedOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for round := range 30 {
		got := s.begin(t, s.pay(fmt.Sprint("k", round), 10))
		_, err := s.Transfers.Try(t.Context(), got.ID)
		require.NoError(t, err)
		states := make([]transfer.State, 4)
		var group errgroup.Group
		for i := range states {
			group.Go(func() error {
				p, err := s.Transfers.Settle(context.Background(), got.ID, []string{"", transfer.Canceled}[i%2])
				states[i] = p.State
				return err
			})
		}
		require.NoError(t, group.Wait())
		for _, state := range states {
			require.Equal(t, states[0], state, "all are told the one end")
		}
	}
	s.RequireInvariants(t)
}

func TestMoneyThatIsNotHeldAnyMoreIsNotMoved(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	got := s.begin(t, s.pay("k", 100))
	_, err := s.Transfers.Try(t.Context(), got.ID)
	require.NoError(t, err)
	// A hand releases the hold.
	require.NoError(t, database.InTx(t.Context(), s.Engine, func(tx pgx.Tx) error {
		_, err := ledger.Release(t.Context(), tx, s.Tenant, got.GID+"#0")
		return err
	}))
	_, err = s.Transfers.Settle(t.Context(), got.ID, "")
	require.Error(t, err)
	now, err := transfer.Find(t.Context(), s.Engine, s.Tenant, got.ID)
	require.NoError(t, err)
	require.Equal(t, transfer.Trying, now.State, "rolled back with its decision")
	require.Equal(t, untouched, s.stands(t))
	_, err = s.Transfers.Settle(t.Context(), got.ID, transfer.Canceled)
	require.NoError(t, err)
	s.RequireInvariants(t)
}

func TestAPayeeWhoHasTooMuchByThenIsNotPaid(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	got := s.begin(t, s.pay("k", 100))
	_, err := s.Transfers.Try(t.Context(), got.ID)
	require.NoError(t, err)
	const most = 1 << 62
	require.NoError(t, database.InTx(t.Context(), s.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: s.Tenant, Key: "flood", Kind: "posting", Lines: []ledger.Line{
			{Code: "bank2", Currency: "CNY", Amount: -most + 1050, AllowNegative: true}, {Code: "b", Currency: "CNY", Amount: most - 1050},
		}})
		return err
	}))
	p, err := s.Transfers.Settle(t.Context(), got.ID, "")
	require.NoError(t, err)
	require.Equal(t, transfer.Cancelled, p.State)
	require.Equal(t, transfer.AmountOutOfRange, p.Failure)
	s.RequireInvariants(t)
}

// A key that is taken by another transfer while this one is begun: the loser leaves nothing behind.
func TestAKeyThatIsTakenAtThisMoment(t *testing.T) {
	t.Parallel()
	for _, mode := range []transfer.Mode{transfer.Direct, transfer.TCC} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			r := s.pay("", 100)
			r.Reference = "first"
			first, _, err := s.Transfers.Create(t.Context(), r)
			require.NoError(t, err)
			tx, err := s.Engine.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			_, err = tx.Exec(t.Context(), "INSERT INTO transfer_keys (tenant_id, key, transfer_id) VALUES ($1, 'k', $2)", s.Tenant, first.ID)
			require.NoError(t, err)

			second := s.pay("k", 100)
			second.Mode = mode
			answer := make(chan error, 1)
			go func() {
				_, _, err := s.Transfers.Create(context.Background(), second)
				answer <- err
			}()
			require.Eventually(t, func() bool {
				return s.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
			}, 20*time.Second, 10*time.Millisecond, "it waits for who has taken the key")
			require.NoError(t, tx.Commit(t.Context()))
			require.ErrorIs(t, <-answer, transfer.ErrKeyReused)
			require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM transfers WHERE tenant_id = $1", s.Tenant))
			s.RequireInvariants(t)
		})
	}
}

func TestWhatWasPurgedStaysBarred(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	got := s.beginUntried(t, s.pay("k", 100))
	_, err := s.Transfers.Decide(t.Context(), got.ID, transfer.Canceled)
	require.NoError(t, err)
	_, err = s.Transfers.End(t.Context(), got.ID, true)
	require.NoError(t, err)
	open := s.begin(t, s.pay("open", 100))
	_, err = s.Transfers.Try(t.Context(), open.ID)
	require.NoError(t, err)

	n, err := s.Transfers.PurgeFences(t.Context(), 100)
	require.NoError(t, err)
	require.Zero(t, n, "not while a retry may come")
	s.Clock.Pass(31 * 24 * time.Hour)
	n, err = s.Transfers.PurgeFences(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM fences"), "what has not ended keeps its fence")

	p, err := s.Transfers.Try(t.Context(), got.ID)
	require.NoError(t, err)
	require.Equal(t, transfer.Cancelled, p.State, "the row bars the late Try")
	require.Zero(t, s.Count(t, "SELECT count(*) FROM holds WHERE key LIKE $1", got.GID+"#%"))
}

func TestATransferThatDoesNotEndIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.begin(t, s.pay("k", 100))
	require.Len(t, s.driver.TakeTransfers(), 1)
	n, err := s.Transfers.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	s.Clock.Pass(2 * time.Minute)
	n, err = s.Transfers.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, s.driver.TakeTransfers(), 1)
}

func TestTransfersThatAnAwayEngineWasNotEvenAskedAboutWaitNoLonger(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	for _, key := range []string{"k1", "k2", "k3"} {
		s.begin(t, s.pay(key, 100))
	}
	s.driver.TakeTransfers()
	s.Clock.Pass(2 * time.Minute)
	s.driver.Err = errors.New("away")
	n, err := s.Transfers.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	s.driver.Err = nil
	s.Clock.Pass(6 * time.Second)
	n, err = s.Transfers.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

func TestWhatCannotBeATransferIsRefused(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	with := func(change func(*transfer.Request)) transfer.Request {
		r := s.pay("k", 100)
		change(&r)
		return r
	}
	for name, r := range map[string]transfer.Request{
		"no name":           with(func(r *transfer.Request) { r.IdempotencyKey = "" }),
		"no legs":           with(func(r *transfer.Request) { r.Legs = nil }),
		"unbalanced":        with(func(r *transfer.Request) { r.Legs[0].Amount = -99 }),
		"one account twice": with(func(r *transfer.Request) { r.Legs[1].Account = "a" }),
		"a channel's books": with(func(r *transfer.Request) { r.Legs[0].Account = "channel:standard:x" }),
		"suspense":          with(func(r *transfer.Request) { r.Legs[0].Account = "suspense" }),
		"of two currencies": with(func(r *transfer.Request) { r.Legs[1].Currency = "USD" }),
		"an unknown type":   with(func(r *transfer.Request) { r.Legs[1].Type = "x" }),
		"nothing of stock":  with(func(r *transfer.Request) { r.Legs = append(r.Legs, book(0)) }),
		"direct though http": with(func(r *transfer.Request) {
			r.Mode = transfer.Direct
			r.Legs = append(r.Legs, transfer.Leg{Type: transfer.HTTPLeg, Participant: "x"})
		}),
		"an unknown mode": with(func(r *transfer.Request) { r.Mode = "saga" }),
	} {
		_, _, err := s.Transfers.Create(t.Context(), r)
		require.ErrorIs(t, err, transfer.ErrInvalid, name)
	}
	_, _, err := s.Transfers.Create(t.Context(), with(func(r *transfer.Request) { r.Legs[1].Account = "none" }))
	require.ErrorIs(t, err, ledger.ErrNoAccount)
	_, _, err = s.Transfers.Create(t.Context(), with(func(r *transfer.Request) {
		r.Legs = append(r.Legs, transfer.Leg{Type: transfer.HTTPLeg, Participant: "none"})
	}))
	require.ErrorIs(t, err, transfer.ErrUnknownParticipant)
	_, _, err = s.Transfers.Create(t.Context(), s.pay("k", 1, transfer.Leg{Type: transfer.StockLeg, SKU: "none", Quantity: 1}))
	require.ErrorIs(t, err, stock.ErrUnknownSKU)
	require.Zero(t, s.Count(t, "SELECT count(*) FROM transfers"), "what is refused is not stored")
}

func TestAParticipantIsCalledSignedAndUnderOneKey(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	secret := testhouse.NewSecret()
	verifier, err := standard.Channel{}.Open("x", []byte(`{"secrets":["`+secret+`"]}`))
	require.NoError(t, err)
	status := atomic.Int64{}
	var keys []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || verifier.Verify(channel.Notification{Header: r.Header, Body: body, ReceivedAt: time.Now()}) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		keys = append(keys, r.Header.Get("Idempotency-Key")+" "+r.URL.Path)
		if status.Load() == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer srv.Close()
	config, err := json.Marshal(transfer.ParticipantConfig{TryURL: srv.URL + "/try", ConfirmURL: srv.URL + "/confirm", CancelURL: srv.URL + "/cancel", Secret: secret})
	require.NoError(t, err)
	require.NoError(t, s.Transfers.PutParticipant(t.Context(), s.Tenant, "depot", config))
	got := s.begin(t, s.pay("k", 100, transfer.Leg{Type: transfer.HTTPLeg, Participant: "depot", Body: json.RawMessage(`{"item":7}`)}))

	for _, c := range []struct {
		status  int
		done    bool
		refused bool
	}{{200, true, false}, {204, true, false}, {400, false, true}, {404, false, true}, {409, false, false}, {429, false, false}, {500, false, false}, {503, false, false}, {302, false, false}} {
		status.Store(int64(c.status))
		err := s.Transfers.Call(t.Context(), got.ID, 2, "try")
		require.Equal(t, c.done, err == nil, c.status)
		var refused *transfer.Refused
		if c.refused {
			require.ErrorAs(t, err, &refused)
		} else if err != nil {
			require.NotErrorAs(t, err, &refused, c.status)
		}
	}
	want := fmt.Sprintf(`"tr_%d_2_try" /try`, got.ID)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.Equal(t, want, key, "each attempt under the same key, and no redirect followed")
	}
	require.Error(t, s.Transfers.Call(t.Context(), got.ID, 0, "try"), "a ledger leg is nobody's to call")
}

func TestAParticipantThatCannotBeTrustedIsNotRegistered(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	valid := transfer.ParticipantConfig{TryURL: "https://depot.example/try", ConfirmURL: "https://depot.example/confirm", CancelURL: "https://depot.example/cancel", Secret: testhouse.NewSecret()}
	for name, change := range map[string]func(*transfer.ParticipantConfig){
		"plain http":     func(c *transfer.ParticipantConfig) { c.TryURL = "http://depot.example/try" },
		"no URL":         func(c *transfer.ParticipantConfig) { c.CancelURL = "" },
		"credentials":    func(c *transfer.ParticipantConfig) { c.TryURL = "https://u:p@depot.example/try" },
		"another scheme": func(c *transfer.ParticipantConfig) { c.TryURL = "file:///etc/passwd" },
		"no secret":      func(c *transfer.ParticipantConfig) { c.Secret = "" },
		"short secret":   func(c *transfer.ParticipantConfig) { c.Secret = "whsec_c2hvcnQ=" },
	} {
		c := valid
		change(&c)
		config, err := json.Marshal(c)
		require.NoError(t, err)
		require.Error(t, s.Transfers.PutParticipant(t.Context(), s.Tenant, "depot", config), name)
	}
	config, err := json.Marshal(valid)
	require.NoError(t, err)
	require.NoError(t, s.Transfers.PutParticipant(t.Context(), s.Tenant, "depot", config))
	require.Zero(t, s.Count(t, "SELECT count(*) FROM participants WHERE position('whsec' in encode(config, 'escape')) > 0"), "sealed at rest")
}
