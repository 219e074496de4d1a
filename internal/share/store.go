package share

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/payment"
)

// holdKey names the hold of a sharing; one that was taken up again holds anew.
func (s Share) holdKey() string {
	if s.Retries == 0 {
		return "share/" + s.OutOrderNo
	}
	return "share/" + s.OutOrderNo + "#" + strconv.Itoa(s.Retries)
}

// one reads a sharing with its legs. Error: [ErrNotFound].
func one(ctx context.Context, db payment.Querier, where string, args ...any) (Share, error) {
	list, err := many(ctx, db, where, args...)
	if err != nil {
		return Share{}, err
	}
	if len(list) != 1 {
		return Share{}, ErrNotFound
	}
	return list[0], nil
}

// many reads sharings with their legs.
func many(ctx context.Context, db payment.Querier, where string, args ...any) ([]Share, error) {
	rows, err := db.Query(ctx, shareSQL+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read sharings: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Share])
	if err != nil {
		return nil, fmt.Errorf("read sharings: %w", err)
	}
	at := map[int64]int{}
	ids := make([]int64, len(list))
	for i, s := range list {
		at[s.ID], ids[i] = i, s.ID
	}
	if len(list) == 0 {
		return nil, nil
	}
	if rows, err = db.Query(ctx, legsSQL, ids); err != nil {
		return nil, fmt.Errorf("read the legs of sharings: %w", err)
	}
	legs, err := pgx.CollectRows(rows, pgx.RowToStructByName[Leg])
	if err != nil {
		return nil, fmt.Errorf("read the legs of sharings: %w", err)
	}
	for _, l := range legs {
		i := at[l.ShareRow]
		list[i].Legs = append(list[i].Legs, l)
	}
	return list, nil
}

// lock reads a sharing again under its lock, and that of its payment before it.
func lock(ctx context.Context, tx pgx.Tx, sh Share) (Share, error) {
	if _, err := tx.Exec(ctx, "SELECT FROM payments WHERE id = $1 FOR UPDATE", sh.PaymentID); err != nil {
		return Share{}, fmt.Errorf("lock the payment of a sharing: %w", err)
	}
	return one(ctx, tx, " WHERE s.id = $1 FOR UPDATE OF s", sh.ID)
}

func lockByNumber(ctx context.Context, tx pgx.Tx, tenantID, outOrderNo string) (Share, error) {
	sh, err := one(ctx, tx, " WHERE s.tenant_id = $1 AND s.out_order_no = $2", tenantID, outOrderNo)
	if err != nil {
		return Share{}, err
	}
	return lock(ctx, tx, sh)
}

func lockByID(ctx context.Context, tx pgx.Tx, id int64) (Share, error) {
	sh, err := one(ctx, tx, " WHERE s.id = $1", id)
	if errors.Is(err, ErrNotFound) {
		return Share{}, fmt.Errorf("sharing %d: %w", id, err)
	}
	if err != nil {
		return Share{}, err
	}
	return lock(ctx, tx, sh)
}
