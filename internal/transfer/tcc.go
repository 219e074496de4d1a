package transfer

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/stock"
)

// booksBranch is the one branch of all legs in this database.
const booksBranch = "books"

// Progress is where a step found or left the transfer.
type Progress struct {
	State State
	// Failure is the code of a definite refusal, or why it was cancelled.
	Failure string
	// External are the numbers of the legs that external participants carry out.
	External []int
}

//go:embed sql/try.sql
var tryTemplate string

var (
	trySQL = strings.Replace(tryTemplate, "{which}", "id = $1", 1)
	// tryMadeSQL tries the transfer that this very transaction has made.
	tryMadeSQL = strings.Replace(tryTemplate, "{which}", "gid = $1 AND created_at = now()", 1)
)

// Try tries the legs in this database: what is paid is held, what is taken is reserved, who is paid must exist. A transfer
// that is decided already is left alone, and the answer says so; a refusal leaves nothing behind.
func (s *Service) Try(ctx context.Context, id int64) (p Progress, err error) {
	p, err = s.tryMoney(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		p, err = s.tryAll(ctx, id)
	}
	if code := refusal(err); code != "" {
		p.Failure = code
		return p, nil
	}
	if errors.Is(err, ledger.ErrBarred) {
		p.Failure = Canceled
		return p, nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("try transfer %d: %w", id, err)
	}
	return p, nil
}

// tryMoney tries a transfer that takes no goods in one round trip. Error: [pgx.ErrNoRows] when nothing was done.
func (s *Service) tryMoney(ctx context.Context, id int64) (Progress, error) {
	p := Progress{State: Trying}
	err := database.InOneTrip(ctx, s.pool, func(q database.Querier) error {
		return q.QueryRow(ctx, trySQL, id, int64(headroom), Trying).Scan(&p.External)
	})
	return p, cmp.Or(ledger.Refusal(err), err)
}

// tryAll tries the legs step by step, and says why what cannot be done cannot.
func (s *Service) tryAll(ctx context.Context, id int64) (p Progress, err error) {
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		// Locked against the decision: a Try that comes after it finds it made, however late, and whatever was purged.
		t, err := one(ctx, tx, transferSQL+" WHERE id = $1 FOR SHARE", id)
		if err != nil {
			return err
		}
		var legs []Leg
		if p, legs, err = progressOf(t); err != nil || t.State != Trying {
			return err
		}
		money, goods, _ := split(legs)
		_, err = fence(t).Try(ctx, tx, func() error {
			if err := stock.Reserve(ctx, tx, t.TenantID, t.GID, goods); err != nil {
				return err
			}
			return holdLegs(ctx, tx, t, money)
		})
		return err
	})
	return p, err
}

func fence(t Transfer) ledger.Fence { return ledger.Fence{GID: t.GID, Branch: booksBranch} }

// headroom is the balance beyond which nobody is paid by a transfer any more: half of what an account may hold, so that what is
// tried now can still be confirmed when others have been paid meanwhile.
const headroom = 1 << 61

// holdLegs holds what is paid, account by account in the order of their ids, and looks whether who is paid can be.
func holdLegs(ctx context.Context, tx pgx.Tx, t Transfer, money []Leg) error {
	named, err := ledger.Look(ctx, tx, t.TenantID, linesOf(money))
	if err != nil {
		return err
	}
	for _, i := range byAccountID(named) {
		if money[i].Amount > 0 {
			if named[i].Balance > headroom-money[i].Amount {
				return fmt.Errorf("pay %s: %w", money[i].Account, ledger.ErrOutOfRange)
			}
			continue
		}
		_, err := ledger.Place(ctx, tx, ledger.Hold{
			TenantID: t.TenantID, Key: holdKey(t, i), Code: money[i].Account, Currency: money[i].Currency, Amount: -money[i].Amount,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func holdKey(t Transfer, leg int) string { return t.GID + "#" + strconv.Itoa(leg) }

// byAccountID gives the legs' numbers in the order in which their accounts are locked.
func byAccountID(named []ledger.Named) []int {
	order := make([]int, len(named))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(named[a].ID, named[b].ID) })
	return order
}

//go:embed sql/decide.sql
var decideSQL string

//go:embed sql/end.sql
var endSQL string

// Decide makes the decision durable, once: confirm when failure is empty, else cancel. Whoever comes later gets the
// decision that was made.
func (s *Service) Decide(ctx context.Context, id int64, failure string) (p Progress, err error) {
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		t, err := s.decide(ctx, tx, id, failure)
		if err != nil {
			return err
		}
		p, _, err = progressOf(t)
		return err
	})
	if err != nil {
		return Progress{}, fmt.Errorf("decide transfer %d: %w", id, err)
	}
	return p, nil
}

//go:embed sql/settle.sql
var settleSQL string

// Settle decides a transfer without external participants and carries the decision out, in one transaction: where all legs
// live in this database nobody can see the one without the other.
func (s *Service) Settle(ctx context.Context, id int64, failure string) (p Progress, err error) {
	settled := false
	if failure == "" {
		settled, err = s.settleMoney(ctx, id)
	}
	if settled {
		return Progress{State: Confirmed}, nil
	}
	if err == nil {
		p, err = s.settle(ctx, id, failure)
	}
	if failure == "" && errors.Is(err, ledger.ErrOutOfRange) {
		// Rolled back with its decision: it can still be cancelled, and must be, as it could never be confirmed.
		p, err = s.settle(ctx, id, AmountOutOfRange)
	}
	if err != nil {
		return Progress{}, fmt.Errorf("settle transfer %d: %w", id, err)
	}
	return p, nil
}

// settleMoney confirms a transfer of money alone in one round trip; settled is false when nothing was done: it takes goods, was
// decided before, or was not tried.
func (s *Service) settleMoney(ctx context.Context, id int64) (settled bool, err error) {
	err = database.InOneTrip(ctx, s.pool, func(q database.Querier) error {
		return q.QueryRow(ctx, settleSQL, id, Trying).Scan(nil)
	})
	if errors.Is(err, pgx.ErrNoRows) || database.Violated(err, "fences_pkey") {
		return false, nil
	}
	return err == nil, cmp.Or(ledger.Refusal(err), err)
}

func (s *Service) settle(ctx context.Context, id int64, failure string) (p Progress, err error) {
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		t, err := s.decide(ctx, tx, id, failure)
		if err != nil {
			return err
		}
		p, err = s.end(ctx, tx, t, true)
		return err
	})
	return p, err
}

func (s *Service) decide(ctx context.Context, tx pgx.Tx, id int64, failure string) (Transfer, error) {
	state := Confirming
	if failure != "" {
		state = Cancelling
	}
	t, err := one(ctx, tx, decideSQL, id, state, orNil(failure), s.now().Add(endingDeadline))
	if errors.Is(err, ErrNotFound) {
		// Decided before; locked, as a decision would have.
		return one(ctx, tx, transferSQL+" WHERE id = $1 FOR UPDATE", id)
	}
	return t, err
}

// End confirms or cancels the legs in this database, as the row says, and ends the transfer when last is true: all others
// have ended. Errors of the fence mean that something outside of this flow has touched the branch.
func (s *Service) End(ctx context.Context, id int64, last bool) (p Progress, err error) {
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		t, err := one(ctx, tx, transferSQL+" WHERE id = $1 FOR UPDATE", id)
		if err != nil {
			return err
		}
		p, err = s.end(ctx, tx, t, last)
		return err
	})
	if err != nil {
		return Progress{}, fmt.Errorf("end transfer %d: %w", id, err)
	}
	return p, nil
}

// end works on a transfer whose row is locked.
func (s *Service) end(ctx context.Context, tx pgx.Tx, t Transfer, last bool) (Progress, error) {
	p, legs, err := progressOf(t)
	if err != nil {
		return p, err
	}
	money, goods, _ := split(legs)
	end := Confirmed
	switch t.State {
	case Confirming:
		_, err = fence(t).Confirm(ctx, tx, func() error { return confirmLegs(ctx, tx, t, money, goods) })
	case Cancelling:
		end = Cancelled
		_, err = fence(t).Cancel(ctx, tx, func() error { return cancelLegs(ctx, tx, t, money, goods) })
	default:
		return p, nil // ended, or not decided: nothing to do
	}
	if err != nil || !last {
		return p, err
	}
	p.State = end
	_, err = tx.Exec(ctx, endSQL, t.ID, end, t.State)
	return p, err
}

// progressOf also gives the legs, which it has to read.
func progressOf(t Transfer) (Progress, []Leg, error) {
	legs, err := t.Legs()
	_, _, external := split(legs)
	return Progress{State: t.State, Failure: deref(t.Failure), External: external}, legs, err
}

func confirmLegs(ctx context.Context, tx pgx.Tx, t Transfer, money []Leg, goods []stock.Item) error {
	if len(goods) > 0 {
		if err := stock.Confirm(ctx, tx, t.TenantID, t.GID, len(stock.Sorted(goods))); err != nil {
			return err
		}
	}
	// The journal locks the accounts by id; the holds follow.
	if err := postLegs(ctx, tx, t, money, true); err != nil {
		return err
	}
	var keys []string
	for i, l := range money {
		if l.Amount < 0 {
			keys = append(keys, holdKey(t, i))
		}
	}
	return ledger.MarkAllCaptured(ctx, tx, t.TenantID, keys)
}

func cancelLegs(ctx context.Context, tx pgx.Tx, t Transfer, money []Leg, goods []stock.Item) error {
	if len(goods) > 0 {
		if err := stock.Release(ctx, tx, t.TenantID, t.GID); err != nil {
			return err
		}
	}
	named, err := ledger.Look(ctx, tx, t.TenantID, linesOf(money))
	if err != nil {
		return err
	}
	for _, i := range byAccountID(named) {
		if money[i].Amount > 0 {
			continue
		}
		if _, err := ledger.Release(ctx, tx, t.TenantID, holdKey(t, i)); err != nil {
			return err
		}
	}
	return nil
}

//go:embed sql/claim.sql
var claimSQL string

const (
	// stuckAfter is when a transfer that is still tried is not a delay any more.
	stuckAfter     = 5 * time.Minute
	redriveBatch   = 100
	redriveTimeout = 30 * time.Second
	// fencePurge is how many old fences one statement deletes, purgeRounds how many of them one round runs at most: more than a
	// worker can make meanwhile.
	fencePurge  = 200
	purgeRounds = 20
)

// Redrive looks once after transfers that have not ended by their deadline. One that is decided and does not end is
// alerted: its participants fail to confirm or cancel. Fences that no retry can need any more are purged. It returns how many
// it started.
func (s *Service) Redrive(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, redriveTimeout)
	defer cancel()
	measureErr := s.measure(ctx)
	started, err := s.startDue(ctx)
	var purgeErr error
	for n, rounds := fencePurge, 0; n == fencePurge && rounds < purgeRounds && purgeErr == nil; rounds++ {
		n, purgeErr = s.PurgeFences(ctx, fencePurge)
	}
	return started, errors.Join(err, purgeErr, measureErr)
}

var (
	unended = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_transfers_unended",
		Help: "Transfers that have not ended, by state.",
	}, []string{"state"})
	oldestUnended = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_transfers_unended_oldest_seconds",
		Help: "Age of the oldest transfer that has not ended, by state; 0 without one.",
	}, []string{"state"})
)

func (s *Service) measure(ctx context.Context) error {
	for _, state := range []State{Trying, Confirming, Cancelling} {
		var count int64
		var since *time.Time
		if err := s.pool.QueryRow(ctx, "SELECT count(*), min(created_at) FROM transfers WHERE state = $1 AND state IN ('TRYING', 'CONFIRMING', 'CANCELLING')", state).Scan(&count, &since); err != nil {
			return fmt.Errorf("count %s transfers: %w", state, err)
		}
		age := 0.0
		if since != nil {
			age = s.now().Sub(*since).Seconds()
		}
		unended.WithLabelValues(string(state)).Set(float64(count))
		oldestUnended.WithLabelValues(string(state)).Set(age)
	}
	return nil
}

func (s *Service) startDue(ctx context.Context) (int, error) {
	now := s.now()
	rows, err := s.pool.Query(ctx, claimSQL, now, now.Add(s.trying), now.Add(endingDeadline), redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("claim overdue transfers: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[Transfer])
	if err != nil {
		return 0, fmt.Errorf("claim overdue transfers: %w", err)
	}
	for i, t := range due {
		if t.State != Trying || now.Sub(t.CreatedAt) > stuckAfter {
			alert.Raise(s.log, alert.TransferStuck, "a transfer does not end", zap.String("tenant", t.TenantID), zap.Int64("transfer", t.ID), zap.String("state", string(t.State)))
		}
		if _, started := s.start(ctx, t, true); !started {
			s.soon(ctx, due[i+1:]...) // the engine is away: the others were not tried, and wait no longer than this one
			return i, nil
		}
	}
	return len(due), nil
}

// fenceRetention is longer than any try of a flow or participant can be under way.
const fenceRetention = 30 * 24 * time.Hour

//go:embed sql/purge_fences.sql
var purgeFencesSQL string

// PurgeFences deletes the fences of transfers that ended long ago, a few at a time, and returns how many. What it deletes
// stays barred: every step reads the transfer's row first, and that row is kept for ever.
func (s *Service) PurgeFences(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, purgeFencesSQL, s.now().Add(-fenceRetention), limit)
	if err != nil {
		return 0, fmt.Errorf("purge old fences: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
