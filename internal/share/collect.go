package share

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/payment"
)

// ErrNothingOwed says that no receiver owes anything that is not being collected already.
var ErrNothingOwed = errors.New("nothing of this sharing is owed")

// Collect has the channel asked for what receivers of a sharing owe; account narrows it to one. What was definitely refused
// before is asked for under the next number. then runs last in the transaction. Errors: [ErrNotFound], [ErrNothingOwed].
func (s *Service) Collect(ctx context.Context, tenantID, outOrderNo, account string, then ...Then) (Share, error) {
	var sh Share
	err := database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var err error
		if sh, err = lockByNumber(ctx, tx, tenantID, outOrderNo); err != nil {
			return err
		}
		owed, err := returns(ctx, tx, " WHERE s.id = $1 AND r.state = 'OWED' AND ($2 = '' OR l.account = $2) ORDER BY r.id FOR UPDATE OF r", sh.ID, account)
		if err != nil {
			return err
		}
		if len(owed) == 0 {
			return ErrNothingOwed
		}
		for _, r := range owed {
			if r.Collecting {
				continue
			}
			if r.Sends > 0 {
				if r.Attempt, err = nextAttempt(ctx, tx, r.RefundID, r.LegID); err != nil {
					return err
				}
				r.OutReturnNo = returnNumber(r.OutRefundNo, r.OutOrderNo, r.Account, r.Attempt)
			}
			if err := exactly(ctx, tx, "begin to collect", collectSQL, r.ID, r.Attempt, r.OutReturnNo, s.now(), s.now().Add(s.rests)); err != nil {
				return err
			}
		}
		err = audit.Record(ctx, tx, tenantID, audit.ShareCollected, "sharing "+outOrderNo, account)
		return last(tx, sh, false, err, then)
	})
	if err != nil {
		return Share{}, fmt.Errorf("collect what is owed of sharing %s: %w", outOrderNo, err)
	}
	s.start(ctx, sh, func(ctx context.Context) error { return s.driver.StartReturns(ctx, sh) })
	return sh, nil
}

// AskOwed has the channel told or asked once about each return of a sharing that is followed outside of its refund. open says
// that some have not ended: call again. Channel is the channel that is asked.
func (s *Service) AskOwed(ctx context.Context, shareID int64) (open bool, err error) {
	list, err := returns(ctx, s.pool, " WHERE s.id = $1 AND r.collecting ORDER BY r.id", shareID)
	if err != nil {
		return false, err
	}
	return s.askReturns(ctx, list, fundNothing)
}

// Returns lists what refunds take back of a sharing, oldest first.
func Returns(ctx context.Context, db payment.Querier, shareID int64) ([]Return, error) {
	return returns(ctx, db, " WHERE s.id = $1 ORDER BY r.id", shareID)
}

// startReturnsDue starts the flows of sharings whose receivers are being asked and that should have moved by now.
func (s *Service) startReturnsDue(ctx context.Context) (int, error) {
	now := s.now()
	rows, err := s.pool.Query(ctx, claimReturnsSQL, now, now.Add(s.rests), redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("claim overdue returns: %w", err)
	}
	since := map[int64]time.Time{}
	var shareID int64
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&shareID, &at}, func() error { since[shareID] = at; return nil }); err != nil {
		return 0, fmt.Errorf("claim overdue returns: %w", err)
	}
	if len(since) == 0 {
		return 0, nil
	}
	due, err := many(ctx, s.pool, " WHERE s.id = ANY($1) ORDER BY s.id", slices.Collect(maps.Keys(since)))
	if err != nil {
		return 0, err
	}
	for i, sh := range due {
		if now.Sub(since[sh.ID]) > openTooLong {
			s.alert(ctx, sh, since[sh.ID], "what a receiver owes is collected without an answer")
		}
		if !s.start(ctx, sh, func(ctx context.Context) error { return s.driver.StartReturns(ctx, sh) }) {
			s.soon(ctx, due[i+1:]...) // as with sharings
			return i, nil
		}
	}
	return len(due), nil
}
