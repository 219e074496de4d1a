package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// branch is a fenced hold on account a, captured to b or released.
type branch struct {
	db  *testhouse.Database
	gid string
}

func (b branch) run(ctx context.Context, phase string) error {
	fence := ledger.Fence{GID: b.gid, Branch: "x"}
	return inTx(ctx, b.db, func(tx pgx.Tx) (err error) {
		switch phase {
		case "try":
			_, err = fence.Try(ctx, tx, func() error {
				_, err := ledger.Place(ctx, tx, ledger.Hold{TenantID: "shop", Key: b.gid, Code: "a", Currency: "CNY", Amount: 10})
				return err
			})
		case "confirm":
			_, err = fence.Confirm(ctx, tx, func() error {
				_, _, err := ledger.Capture(ctx, tx, b.gid, 10, moves(b.gid, line("b", 10)))
				return err
			})
		case "cancel":
			_, err = fence.Cancel(ctx, tx, func() error {
				_, err := ledger.Release(ctx, tx, "shop", b.gid)
				return err
			})
		}
		return err
	})
}

// Scripts of the bad order. After each step stands what account a has; an upper-case step must be refused.
func TestTheFenceInEveryOrder(t *testing.T) {
	t.Parallel()
	const untouched, held, paid = "100 held 0", "100 held 10", "90 held 0"
	for name, c := range map[string]struct {
		steps []string
		want  error
	}{
		"try, cancel":                         {[]string{"try:" + held, "cancel:" + untouched}, nil},
		"try twice, confirm":                  {[]string{"try:" + held, "try:" + held, "confirm:" + paid}, nil},
		"cancel before try":                   {[]string{"cancel:" + untouched, "TRY:" + untouched}, ledger.ErrBarred},
		"cancel, cancel, late try":            {[]string{"cancel:" + untouched, "cancel:" + untouched, "TRY:" + untouched}, ledger.ErrBarred},
		"try, confirm, confirm":               {[]string{"try:" + held, "confirm:" + paid, "confirm:" + paid}, nil},
		"confirm without try":                 {[]string{"CONFIRM:" + untouched}, ledger.ErrNotTried},
		"cancel after confirm":                {[]string{"try:" + held, "confirm:" + paid, "CANCEL:" + paid}, ledger.ErrEndedOtherwise},
		"confirm after cancel":                {[]string{"try:" + held, "cancel:" + untouched, "CONFIRM:" + untouched}, ledger.ErrEndedOtherwise},
		"confirm after a barred try":          {[]string{"cancel:" + untouched, "CONFIRM:" + untouched}, ledger.ErrBarred},
		"cancel twice after try":              {[]string{"try:" + held, "cancel:" + untouched, "cancel:" + untouched}, nil},
		"try after the end":                   {[]string{"try:" + held, "confirm:" + paid, "try:" + paid}, nil},
		"try after try and cancel is no hold": {[]string{"try:" + held, "cancel:" + untouched, "try:" + untouched}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newLedger(t)
			fund(t, db, "a", 100)
			fund(t, db, "b", 1)
			b := branch{db, name}
			for _, step := range c.steps {
				phase, after, _ := strings.Cut(step, ":")
				err := b.run(t.Context(), strings.ToLower(phase))
				if phase == strings.ToUpper(phase) {
					require.ErrorIs(t, err, c.want, step)
				} else {
					require.NoError(t, err, step)
				}
				require.Equal(t, after, stands(t, db, "a"), step)
			}
		})
	}
}

func TestATryThatFailsAfterItsFenceRowLeavesNeither(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	fund(t, db, "a", 5)
	b := branch{db, "g"}
	require.ErrorIs(t, b.run(t.Context(), "try"), ledger.ErrInsufficient)
	require.Zero(t, db.Count(t, "SELECT count(*) FROM fences"))
	require.NoError(t, b.run(t.Context(), "cancel"))
	require.ErrorIs(t, b.run(t.Context(), "try"), ledger.ErrBarred)
	require.Equal(t, "5 held 0", stands(t, db, "a"))
}

func TestParallelCancelsWithoutATryDoNotDeadlock(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	fund(t, db, "a", 100)
	for round := range 20 {
		var group errgroup.Group
		for range 8 {
			group.Go(func() error { return branch{db, fmt.Sprint("g", round)}.run(context.Background(), "cancel") })
		}
		require.NoError(t, group.Wait())
	}
	require.Equal(t, "100 held 0", stands(t, db, "a"))
}

func TestConfirmAgainstCancelFiveHundredRounds(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	fund(t, db, "a", 5000)
	fund(t, db, "b", 1)
	var confirmed atomic.Int64
	var rounds errgroup.Group
	rounds.SetLimit(6)
	for round := range 500 {
		rounds.Go(func() error {
			b := branch{db, fmt.Sprint("g", round)}
			if err := b.run(context.Background(), "try"); err != nil {
				return err
			}
			var pair errgroup.Group
			var lost atomic.Int64
			for _, phase := range []string{"confirm", "cancel"} {
				pair.Go(func() error {
					err := b.run(context.Background(), phase)
					switch {
					case errors.Is(err, ledger.ErrEndedOtherwise):
						lost.Add(1)
						return nil
					case err == nil && phase == "confirm":
						confirmed.Add(1)
					}
					return err
				})
			}
			if err := pair.Wait(); err != nil {
				return err
			}
			if lost.Load() != 1 {
				return fmt.Errorf("round %d: %d lost", round, lost.Load())
			}
			return nil
		})
	}
	require.NoError(t, rounds.Wait())
	require.Equal(t, fmt.Sprintf("%d held 0", 5000-10*confirmed.Load()), stands(t, db, "a"))
	require.Equal(t, 1+int(10*confirmed.Load()), balance(t, db, "b"))
}
