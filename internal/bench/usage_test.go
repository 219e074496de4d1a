package bench

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestAMeterCountsRoundTripsAndTransactions(t *testing.T) {
	t.Parallel()
	db := testhouse.NewDatabase(t)
	m := &meter{}
	pool, err := openMetered(t.Context(), db.OwnerURL, database.RoleEngine, m)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pool.Ping(t.Context())) // connected, and checked to be durable
	before := m.read()

	_, err = pool.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	require.Equal(t, metered{1, 1}, m.read().minus(before))

	require.NoError(t, database.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT 1")
		return err
	}))
	require.Equal(t, metered{1 + 3, 1 + 1}, m.read().minus(before), "begin, the statement, commit")

	var batch pgx.Batch
	batch.Queue("SELECT 1")
	batch.Queue("SELECT 2")
	require.NoError(t, pool.SendBatch(t.Context(), &batch).Close())
	require.Equal(t, metered{4 + 1, 2 + 1}, m.read().minus(before))
}

func TestThePeakIsReadFromTheSystem(t *testing.T) {
	t.Parallel()
	kib, ok := peakOf("VmPeak:\t 999 kB\nVmHWM:\t  53708 kB\nVmRSS:\t 1 kB\n")
	require.True(t, ok)
	require.InDelta(t, 53708, kib, 0)
	_, ok = peakOf("Name: paylatch\n")
	require.False(t, ok)
	require.Positive(t, peakMemory())
}
