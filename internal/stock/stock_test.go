package stock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/stock"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func newStock(t *testing.T, levels ...stock.Item) *testhouse.Database {
	t.Helper()
	db := testhouse.NewDatabase(t)
	_, err := tenant.Add(t.Context(), db.Engine, "shop", "CNY")
	require.NoError(t, err)
	for _, l := range levels {
		require.NoError(t, database.InTenantTx(t.Context(), db.API, "shop", func(tx pgx.Tx) error {
			_, err := stock.Put(t.Context(), tx, "shop", l.SKU, l.Quantity, 0)
			return err
		}))
	}
	return db
}

func inTx(db *testhouse.Database, do func(ctx context.Context, tx pgx.Tx) error) error {
	return database.InTx(context.Background(), db.Engine, func(tx pgx.Tx) error { return do(context.Background(), tx) })
}

// In most languages "a" comes before "B"; in bytes it does not. Rows must be locked in one order all the same.
func TestStockIsLockedInOneOrderWhateverTheCollation(t *testing.T) {
	t.Parallel()
	db := newStock(t, stock.Item{SKU: "a", Quantity: 10_000}, stock.Item{SKU: "B", Quantity: 10_000})
	_, err := db.Owner.Exec(t.Context(), `
ALTER TABLE reservations DROP CONSTRAINT reservations_tenant_id_sku_fkey;
ALTER TABLE reservations ALTER COLUMN sku TYPE text COLLATE "en-x-icu"`)
	require.NoError(t, err)
	var group errgroup.Group
	for w := range 8 {
		group.Go(func() error {
			for i := range 25 {
				key := fmt.Sprintf("%d-%d", w, i)
				items := []stock.Item{{SKU: "a", Quantity: 1}, {SKU: "B", Quantity: 1}}
				if err := inTx(db, func(ctx context.Context, tx pgx.Tx) error { return stock.Reserve(ctx, tx, "shop", key, items) }); err != nil {
					return err
				}
				if err := inTx(db, func(ctx context.Context, tx pgx.Tx) error { return stock.Confirm(ctx, tx, "shop", key, 2) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	_, err = db.Owner.Exec(t.Context(), "SELECT pg_stat_force_next_flush()")
	require.NoError(t, err)
	require.Zero(t, db.Count(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
	require.Equal(t, 9800, db.Count(t, "SELECT on_hand FROM stock WHERE sku = 'a'"))
	require.Zero(t, db.Count(t, "SELECT sum(reserved) FROM stock"))
}

func TestReservationsAreAllOrNoneAndEndOnce(t *testing.T) {
	t.Parallel()
	db := newStock(t, stock.Item{SKU: "a", Quantity: 5}, stock.Item{SKU: "b", Quantity: 1})
	reserve := func(key string, items ...stock.Item) error {
		return inTx(db, func(ctx context.Context, tx pgx.Tx) error { return stock.Reserve(ctx, tx, "shop", key, items) })
	}
	require.ErrorIs(t, reserve("k1", stock.Item{SKU: "a", Quantity: 1}, stock.Item{SKU: "b", Quantity: 2}), stock.ErrOutOfStock)
	require.ErrorIs(t, reserve("k1", stock.Item{SKU: "none", Quantity: 1}), stock.ErrUnknownSKU)
	require.Zero(t, db.Count(t, "SELECT count(*) FROM reservations"))
	require.NoError(t, reserve("k1", stock.Item{SKU: "a", Quantity: 2}, stock.Item{SKU: "a", Quantity: 1}))
	require.Equal(t, 3, db.Count(t, "SELECT reserved FROM stock WHERE sku = 'a'"), "one sku named twice is one reservation")

	release := func() error {
		return inTx(db, func(ctx context.Context, tx pgx.Tx) error { return stock.Release(ctx, tx, "shop", "k1") })
	}
	require.NoError(t, release())
	require.NoError(t, release(), "released again, nothing happens")
	require.Equal(t, 5, db.Count(t, "SELECT on_hand - reserved FROM stock WHERE sku = 'a'"))
	err := inTx(db, func(ctx context.Context, tx pgx.Tx) error { return stock.Confirm(ctx, tx, "shop", "k1", 1) })
	require.ErrorIs(t, err, stock.ErrNotReserved, "money must not move for goods that were given back")
	require.Equal(t, 5, db.Count(t, "SELECT on_hand FROM stock WHERE sku = 'a'"))
}
