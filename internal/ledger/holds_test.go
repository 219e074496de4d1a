package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func fund(t *testing.T, db *testhouse.Database, code string, amount int64) {
	t.Helper()
	_, _, err := post(t.Context(), db, moves("fund "+code, line("bank", -amount), line(code, amount)))
	require.NoError(t, err)
}

func inTx(ctx context.Context, db *testhouse.Database, do func(pgx.Tx) error) error {
	return database.InTx(ctx, db.Engine, do)
}

func place(ctx context.Context, db *testhouse.Database, key, code string, amount int64) (repeat bool, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) (err error) {
		repeat, err = ledger.Place(ctx, tx, ledger.Hold{TenantID: "shop", Key: key, Code: code, Currency: "CNY", Amount: amount})
		return err
	})
	return repeat, err
}

func capture(ctx context.Context, db *testhouse.Database, hold, journal, to string, amount int64) (posted bool, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) (err error) {
		_, posted, err = ledger.Capture(ctx, tx, hold, amount, moves(journal, line(to, amount)))
		return err
	})
	return posted, err
}

func release(ctx context.Context, db *testhouse.Database, hold string) (released int64, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) (err error) {
		released, err = ledger.Release(ctx, tx, "shop", hold)
		return err
	})
	return released, err
}

// stands is an account's balance and what it holds.
func stands(t *testing.T, db *testhouse.Database, code string) string {
	t.Helper()
	var text string
	require.NoError(t, db.Owner.QueryRow(t.Context(),
		"SELECT balance || ' held ' || held FROM ledger_accounts WHERE tenant_id = 'shop' AND code = $1", code).Scan(&text))
	return text
}

func TestAHoldIsCapturedInPartsAndTheRestReleased(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	ctx := t.Context()
	fund(t, db, "a", 100)
	repeat, err := place(ctx, db, "h", "a", 60)
	require.NoError(t, err)
	require.False(t, repeat)
	require.Equal(t, "100 held 60", stands(t, db, "a"))

	repeat, err = place(ctx, db, "h", "a", 60)
	require.NoError(t, err)
	require.True(t, repeat, "the same hold again is a repeat")
	_, err = place(ctx, db, "h", "a", 61)
	require.ErrorIs(t, err, ledger.ErrKeyReused)
	_, _, err = post(ctx, db, moves("spend", line("a", -41), line("b", 41)))
	require.ErrorIs(t, err, ledger.ErrInsufficient, "what is held is not available")

	for _, step := range []struct {
		journal string
		amount  int64
		posted  bool
	}{{"c1", 25, true}, {"c1", 25, false}, {"c2", 30, true}} {
		posted, err := capture(ctx, db, "h", step.journal, "b", step.amount)
		require.NoError(t, err)
		require.Equal(t, step.posted, posted)
	}
	require.Equal(t, "45 held 5", stands(t, db, "a"))
	_, err = capture(ctx, db, "h", "c3", "b", 6)
	require.ErrorIs(t, err, ledger.ErrHoldExceeded)
	require.Equal(t, "45 held 5", stands(t, db, "a"), "a refused capture moves nothing")

	for _, want := range []int64{5, 0} {
		released, err := release(ctx, db, "h")
		require.NoError(t, err)
		require.Equal(t, want, released)
	}
	require.Equal(t, "45 held 0", stands(t, db, "a"))
	require.Equal(t, "55 held 0", stands(t, db, "b"))
	_, err = capture(ctx, db, "h", "c4", "b", 1)
	require.ErrorIs(t, err, ledger.ErrHoldExceeded, "what was released cannot be captured")
	_, err = release(ctx, db, "none")
	require.ErrorIs(t, err, ledger.ErrNoHold)
	_, err = place(ctx, db, "h2", "none", 1)
	require.ErrorIs(t, err, ledger.ErrNoAccount, "a hold makes no account")
	db.RequireInvariants(t)
}

func TestSixHoldsOfAThousandOnFiveThousandAtOnceAreFive(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	fund(t, db, "a", 5000)
	var group errgroup.Group
	errs := make([]error, 6)
	for i := range errs {
		group.Go(func() error {
			_, errs[i] = place(context.Background(), db, fmt.Sprint("h", i), "a", 1000)
			return nil
		})
	}
	require.NoError(t, group.Wait())
	refused := 0
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrInsufficient)
			refused++
		}
	}
	require.Equal(t, 1, refused)
	require.Equal(t, "5000 held 5000", stands(t, db, "a"))
	require.Equal(t, 5, db.Count(t, "SELECT count(*) FROM holds"), "a refused hold leaves no row to confirm later")
	db.RequireInvariants(t)
}

func TestPartialCapturesAtOnceNeverPassTheHold(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	fund(t, db, "a", 100)
	_, err := place(t.Context(), db, "h", "a", 100)
	require.NoError(t, err)
	var group errgroup.Group
	for i := range 20 {
		group.Go(func() error {
			_, err := capture(context.Background(), db, "h", fmt.Sprint("c", i), "b", 10)
			if err != nil && !errors.Is(err, ledger.ErrHoldExceeded) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error { _, err := release(context.Background(), db, "h"); return err })
	require.NoError(t, group.Wait())
	require.Zero(t, db.Count(t, "SELECT held FROM ledger_accounts WHERE tenant_id = 'shop' AND code = 'a'"))
	db.RequireInvariants(t)
}

// Random operations on few accounts, against a model that a person can check.
func TestRandomOperationsAgreeWithASimpleModel(t *testing.T) {
	t.Parallel()
	type hold struct {
		code       string
		open       int64
		keyCounter int
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			db := newLedger(t)
			random := rand.New(rand.NewPCG(seed, 7))
			codes := []string{"a", "b", "c"}
			balances, helds := map[string]int64{}, map[string]int64{}
			for _, code := range codes {
				fund(t, db, code, 500)
				balances[code] = 500
			}
			holds := map[string]*hold{}
			keys := []string{}
			for step := range 150 {
				from, to := codes[random.IntN(3)], codes[random.IntN(3)]
				amount := 1 + random.Int64N(200)
				switch op := random.IntN(4); {
				case op == 0 && from != to:
					_, _, err := post(t.Context(), db, moves(fmt.Sprint("p", step), line(from, -amount), line(to, amount)))
					if amount <= balances[from]-helds[from] {
						require.NoError(t, err)
						balances[from] -= amount
						balances[to] += amount
					} else {
						require.ErrorIs(t, err, ledger.ErrInsufficient)
					}
				case op == 1:
					key := fmt.Sprint("h", step)
					_, err := place(t.Context(), db, key, from, amount)
					if amount <= balances[from]-helds[from] {
						require.NoError(t, err)
						helds[from] += amount
						holds[key] = &hold{code: from, open: amount}
						keys = append(keys, key)
					} else {
						require.ErrorIs(t, err, ledger.ErrInsufficient)
					}
				case op == 2 && len(keys) > 0:
					key := keys[random.IntN(len(keys))]
					h := holds[key]
					if h.code == to {
						continue
					}
					h.keyCounter++
					_, err := capture(t.Context(), db, key, fmt.Sprint(key, "c", h.keyCounter), to, amount)
					if amount <= h.open {
						require.NoError(t, err)
						h.open -= amount
						helds[h.code] -= amount
						balances[h.code] -= amount
						balances[to] += amount
					} else {
						require.ErrorIs(t, err, ledger.ErrHoldExceeded)
					}
				case op == 3 && len(keys) > 0:
					key := keys[random.IntN(len(keys))]
					released, err := release(t.Context(), db, key)
					require.NoError(t, err)
					require.Equal(t, holds[key].open, released)
					helds[holds[key].code] -= released
					holds[key].open = 0
				}
			}
			for _, code := range codes {
				require.Equal(t, fmt.Sprintf("%d held %d", balances[code], helds[code]), stands(t, db, code))
			}
			db.RequireInvariants(t)
		})
	}
}
