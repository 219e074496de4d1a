// Package stock reserves goods: what is reserved is still on hand and cannot be reserved again; it leaves when the
// reservation is confirmed. Rows are locked in the order of their skus.
package stock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/database"
)

var (
	// ErrUnknownSKU says that the tenant has no such sku.
	ErrUnknownSKU = errors.New("no such sku")
	// ErrOutOfStock says that less is available than was asked for.
	ErrOutOfStock = errors.New("out of stock")
	// ErrNotReserved says that what was to leave is not reserved.
	ErrNotReserved = errors.New("not reserved")
	// ErrBelowReserved says that the stock on hand cannot be set below what is reserved.
	ErrBelowReserved = errors.New("less than what is reserved")
	// ErrVersion says that the stock was changed since the version that the caller knows.
	ErrVersion = errors.New("the stock has another version by now")
)

var skuPattern = regexp.MustCompile(`^[A-Za-z0-9_.|*-]{1,64}$`)

// ValidSKU tells whether text can name goods.
func ValidSKU(text string) bool { return skuPattern.MatchString(text) }

// Level is what is there of one sku.
type Level struct {
	SKU       string    `db:"sku"`
	OnHand    int64     `db:"on_hand"`
	Reserved  int64     `db:"reserved"`
	Version   int64     `db:"version"`
	UpdatedAt time.Time `db:"updated_at"`
}

// Item is a quantity of one sku.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// Put sets what is on hand; with a version above 0 only if that is still the row's. Errors: [ErrBelowReserved], [ErrVersion].
func Put(ctx context.Context, tx pgx.Tx, tenantID, sku string, onHand, version int64) (Level, error) {
	tag, err := tx.Exec(ctx, `
UPDATE stock SET on_hand = $3, version = version + 1, updated_at = now()
 WHERE tenant_id = $1 AND sku = $2 AND ($4::bigint = 0 OR version = $4)`, tenantID, sku, onHand, version)
	if err == nil && tag.RowsAffected() == 0 && version == 0 {
		// Two first puts at once: the later one sets the row that the earlier one made.
		_, err = tx.Exec(ctx, `
INSERT INTO stock (tenant_id, sku, on_hand) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id, sku) DO UPDATE SET on_hand = excluded.on_hand, version = stock.version + 1, updated_at = now()`, tenantID, sku, onHand)
	}
	switch {
	case database.Violated(err, "not_oversold"):
		return Level{}, fmt.Errorf("set the stock of %s: %w", sku, ErrBelowReserved)
	case err != nil:
		return Level{}, fmt.Errorf("set the stock of %s: %w", sku, err)
	}
	level, err := Get(ctx, tx, tenantID, sku)
	if err == nil && version > 0 && tag.RowsAffected() == 0 {
		return Level{}, fmt.Errorf("set the stock of %s: %w", sku, ErrVersion)
	}
	return level, err
}

// Get reads one level. Error: [ErrUnknownSKU].
func Get(ctx context.Context, tx pgx.Tx, tenantID, sku string) (Level, error) {
	rows, err := tx.Query(ctx, "SELECT sku, on_hand, reserved, version, updated_at FROM stock WHERE tenant_id = $1 AND sku = $2", tenantID, sku)
	if err != nil {
		return Level{}, fmt.Errorf("read the stock of %s: %w", sku, err)
	}
	level, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Level])
	if errors.Is(err, pgx.ErrNoRows) {
		return Level{}, fmt.Errorf("%w: %s", ErrUnknownSKU, sku)
	}
	return level, err
}

// Reserve sets items aside under a key, all or none. The key must be new: whoever calls it has decided that by a row of its
// own in the same transaction. Errors: [ErrUnknownSKU], [ErrOutOfStock]; after each the caller must roll tx back.
func Reserve(ctx context.Context, tx pgx.Tx, tenantID, key string, items []Item) error {
	for _, item := range Sorted(items) {
		tag, err := tx.Exec(ctx, `
UPDATE stock SET reserved = reserved + $3, version = version + 1, updated_at = now()
 WHERE tenant_id = $1 AND sku = $2 AND on_hand - reserved >= $3`, tenantID, item.SKU, item.Quantity)
		if err != nil {
			return fmt.Errorf("reserve %d of %s: %w", item.Quantity, item.SKU, err)
		}
		if tag.RowsAffected() == 0 {
			if _, err := Get(ctx, tx, tenantID, item.SKU); err != nil {
				return err
			}
			return fmt.Errorf("reserve %d of %s: %w", item.Quantity, item.SKU, ErrOutOfStock)
		}
		_, err = tx.Exec(ctx, "INSERT INTO reservations (tenant_id, key, sku, quantity) VALUES ($1, $2, $3, $4)", tenantID, key, item.SKU, item.Quantity)
		if err != nil {
			return fmt.Errorf("reserve %s: %w", item.SKU, err)
		}
	}
	return nil
}

// Sorted gives one item per sku, in the order in which rows are locked.
func Sorted(items []Item) []Item {
	quantities := map[string]int64{}
	for _, item := range items {
		quantities[item.SKU] += item.Quantity
	}
	merged := make([]Item, 0, len(quantities))
	for sku, quantity := range quantities {
		merged = append(merged, Item{sku, quantity})
	}
	sort.Slice(merged, func(a, b int) bool { return merged[a].SKU < merged[b].SKU })
	return merged
}

// Confirm lets the items that are reserved under a key leave. Error: [ErrNotReserved] when one of them is not HELD: money must
// not move without its goods.
func Confirm(ctx context.Context, tx pgx.Tx, tenantID, key string, items int) error {
	ended, err := end(ctx, tx, tenantID, key, "CONFIRMED", "on_hand = on_hand - $3, reserved = reserved - $3")
	if err == nil && ended != items {
		return fmt.Errorf("confirm %d items of %s, of which %d are held: %w", items, key, ended, ErrNotReserved)
	}
	return err
}

// Release gives back what is reserved under a key; what is not HELD any more stays as it is.
func Release(ctx context.Context, tx pgx.Tx, tenantID, key string) error {
	_, err := end(ctx, tx, tenantID, key, "RELEASED", "reserved = reserved - $3")
	return err
}

func end(ctx context.Context, tx pgx.Tx, tenantID, key, state, change string) (ended int, err error) {
	held, err := held(ctx, tx, tenantID, key)
	if err != nil {
		return 0, err
	}
	for _, item := range held {
		// Guard: still HELD, and locked after its stock as everywhere.
		if _, err := tx.Exec(ctx, "SELECT FROM stock WHERE tenant_id = $1 AND sku = $2 FOR UPDATE", tenantID, item.SKU); err != nil {
			return ended, fmt.Errorf("lock the stock of %s: %w", item.SKU, err)
		}
		tag, err := tx.Exec(ctx, "UPDATE reservations SET state = $4, ended_at = now() WHERE tenant_id = $1 AND key = $2 AND sku = $3 AND state = 'HELD'",
			tenantID, key, item.SKU, state)
		if err != nil {
			return ended, fmt.Errorf("end the reservation of %s: %w", item.SKU, err)
		}
		if tag.RowsAffected() == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, "UPDATE stock SET "+change+", version = version + 1, updated_at = now() WHERE tenant_id = $1 AND sku = $2", tenantID, item.SKU, item.Quantity); err != nil {
			return ended, fmt.Errorf("move the stock of %s: %w", item.SKU, err)
		}
		ended++
	}
	return ended, nil
}

// held reads what is reserved under a key, in the order in which rows are locked: by bytes, as [Sorted] does, whatever the
// database's collation.
func held(ctx context.Context, tx pgx.Tx, tenantID, key string) ([]Item, error) {
	rows, err := tx.Query(ctx, `
SELECT sku, quantity FROM reservations
 WHERE tenant_id = $1 AND key = $2 AND state = 'HELD' ORDER BY sku COLLATE "C"`, tenantID, key)
	if err != nil {
		return nil, fmt.Errorf("read the reservations of %s: %w", key, err)
	}
	items, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Item])
	if err != nil {
		return nil, fmt.Errorf("read the reservations of %s: %w", key, err)
	}
	return items, nil
}
