package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/ledger"
)

func TestABatchBooksEachItemForItself(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	_, _, err := post(t.Context(), db, moves("old", line("bank", -1), line("a", 1)))
	require.NoError(t, err)
	results := ledger.PostMany(t.Context(), db.Engine, []ledger.Journal{
		moves("k1", line("bank", -10), line("a", 10)),
		moves("old", line("bank", -1), line("a", 1)),
		moves("unbalanced", line("bank", -10), line("a", 9)),
		moves("k1", line("bank", -99), line("a", 99)),
		moves("too much", line("a", -1000), line("b", 1000)),
		moves("k2", line("bank", -20), line("a", 20)),
		moves("debit", line("a", -5), line("b", 5)),
	})
	require.NoError(t, results[0].Err)
	require.True(t, results[0].New)
	require.NoError(t, results[1].Err)
	require.False(t, results[1].New)
	require.ErrorIs(t, results[2].Err, ledger.ErrUnbalanced)
	require.NoError(t, results[3].Err)
	require.False(t, results[3].New, "one key twice in a batch is one journal")
	require.Equal(t, results[0].JournalID, results[3].JournalID)
	require.ErrorIs(t, results[4].Err, ledger.ErrInsufficient)
	require.True(t, results[5].New)
	require.NoError(t, results[6].Err, "a debit sees the credits of its batch")
	require.Equal(t, 26, balance(t, db, "a"))
	db.RequireInvariants(t)
}

func TestOneBadItemNeverFailsItsNeighbours(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	bad := moves("bad", line("bank", -1), line("a", 1))
	bad.TenantID = "nobody" // the database refuses it, and with it the whole statement
	results := ledger.PostMany(t.Context(), db.Engine, []ledger.Journal{
		moves("k1", line("bank", -10), line("a", 10)), bad, moves("k2", line("bank", -20), line("a", 20)),
	})
	require.NoError(t, results[0].Err)
	require.Error(t, results[1].Err)
	require.NoError(t, results[2].Err)
	require.Equal(t, 30, balance(t, db, "a"))
	db.RequireInvariants(t)
}

func TestNoLineOfAJournalVanishesWithItsAccount(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	_, _, err := post(t.Context(), db, moves("fund", line("bank", -10), line("b", 10)))
	require.NoError(t, err)
	// The lines in dollars come last, sum to zero by themselves, and their accounts are not there yet.
	j := moves("k", line("bank", -700), line("b", 700),
		ledger.Line{Code: "x", Currency: "USD", Amount: -100, AllowNegative: true}, ledger.Line{Code: "y", Currency: "USD", Amount: 100})
	results := ledger.PostMany(t.Context(), db.Engine, []ledger.Journal{j})
	require.NoError(t, results[0].Err)
	require.True(t, results[0].New)
	require.Equal(t, 4, db.Count(t, "SELECT count(*) FROM entries WHERE journal_id = $1", results[0].JournalID))
	db.RequireInvariants(t)
}

func TestManyCallersCommitTogetherAndEachOnce(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	group := ledger.NewGroup(db.Engine)
	defer group.Stop()
	var callers errgroup.Group
	callers.SetLimit(32)
	for i := range 600 {
		callers.Go(func() error {
			// Each key three times, hot and spread accounts mixed.
			j := moves(fmt.Sprint("k", i%200), line("bank", -1), line("merchant", 1))
			if i%200%2 == 0 {
				j = moves(fmt.Sprint("k", i%200), line("bank", -1), line(fmt.Sprint("acct", i%20), 1))
			}
			_, _, err := group.Post(context.Background(), j)
			return err
		})
	}
	require.NoError(t, callers.Wait())
	require.Equal(t, -200, balance(t, db, "bank"))
	require.Equal(t, 200, db.Count(t, "SELECT count(*) FROM journals"))
	require.Equal(t, 100, balance(t, db, "merchant"))
	db.RequireInvariants(t)
}

func TestAStoppedGroupSaysSo(t *testing.T) {
	t.Parallel()
	db := newLedger(t)
	group := ledger.NewGroup(db.Engine)
	_, posted, err := group.Post(t.Context(), moves("k", line("bank", -1), line("a", 1)))
	require.NoError(t, err)
	require.True(t, posted)
	group.Stop()
	group.Stop()
	_, _, err = group.Post(t.Context(), moves("k2", line("bank", -1), line("a", 1)))
	require.ErrorIs(t, err, ledger.ErrStopped)
}
