package chaos

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Books is what the database says at the end, in one snapshot.
type Books struct {
	Events    []Event
	Receipts  []Receipt
	Orders    []OrderRow
	Journals  []Journal
	Balances  []Balance
	Refunds   []RefundRow
	Legs      []LegRow
	Transfers []TransferRow
	Stock     []StockRow
}

// Event is a row of channel_events.
type Event struct {
	Tenant      string `db:"tenant_id"`
	Account     string `db:"account"`
	Key         string `db:"event_key"`
	Kind        string `db:"kind"`
	Transaction string `db:"transaction_id"`
	Order       string `db:"out_trade_no"`
	Amount      int64  `db:"amount"`
	Currency    string `db:"currency"`
	State       string `db:"state"`
	Outcome     string `db:"outcome"`
	Reason      string `db:"reason"`
	Journal     int64  `db:"journal"` // 0 without one
}

// Receipt is a body that was kept.
type Receipt struct {
	Account string `db:"account"`
	Key     string `db:"event_key"`
	Sum     string `db:"sum"`
}

// OrderRow is a row of payments.
type OrderRow struct {
	Tenant   string `db:"tenant_id"`
	Number   string `db:"out_trade_no"`
	Amount   int64  `db:"amount"`
	Currency string `db:"currency"`
	State    string `db:"state"`
	Codes    int    `db:"codes"`
}

// Journal is a journal with its lines.
type Journal struct {
	ID                int64
	Tenant, Key, Kind string
	Lines             []Line
}

// Line is an entry.
type Line struct {
	Code, Currency string
	Amount         int64
}

// Balance is an account.
type Balance struct {
	Tenant   string `db:"tenant_id"`
	Code     string `db:"code"`
	Currency string `db:"currency"`
	Balance  int64  `db:"balance"`
	Held     int64  `db:"held"`
}

// RefundRow is a row of refunds.
type RefundRow struct {
	Tenant string `db:"tenant_id"`
	Number string `db:"out_refund_no"`
	Order  string `db:"out_trade_no"`
	Amount int64  `db:"amount"`
	State  string `db:"state"`
	Origin string `db:"origin"`
}

// LegRow is a leg of a sharing, and what the sharing says.
type LegRow struct {
	Tenant  string `db:"tenant_id"`
	Number  string `db:"out_order_no"`
	Order   string `db:"out_trade_no"`
	State   string `db:"state"`
	Account string `db:"account"`
	Amount  int64  `db:"amount"`
	Leg     string `db:"leg_state"` // the leg's own state
}

// TransferRow is a row of transfers.
type TransferRow struct {
	Tenant  string `db:"tenant_id"`
	Key     string `db:"key"`
	GID     string `db:"gid"`
	Mode    string `db:"mode"`
	State   string `db:"state"`
	Failure string `db:"failure"`
}

// StockRow is a row of stock.
type StockRow struct {
	Tenant   string `db:"tenant_id"`
	SKU      string `db:"sku"`
	OnHand   int64  `db:"on_hand"`
	Reserved int64  `db:"reserved"`
}

//go:embed sql/events.sql
var eventsSQL string

//go:embed sql/receipts.sql
var receiptsSQL string

//go:embed sql/orders.sql
var ordersSQL string

//go:embed sql/lines.sql
var linesSQL string

//go:embed sql/balances.sql
var balancesSQL string

//go:embed sql/refunds.sql
var refundsSQL string

//go:embed sql/legs.sql
var legsSQL string

//go:embed sql/transfers.sql
var transfersSQL string

//go:embed sql/stock.sql
var stockSQL string

// ReadBooks reads everything in one snapshot, with a role that sees all tenants.
func ReadBooks(ctx context.Context, db *pgxpool.Pool) (*Books, error) {
	var b *Books
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		b, err = readBooks(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the books: %w", err)
	}
	return b, nil
}

func readBooks(ctx context.Context, tx pgx.Tx) (*Books, error) {
	b := &Books{}
	for _, read := range []func() error{
		func() (err error) { b.Events, err = rows[Event](ctx, tx, eventsSQL); return },
		func() (err error) { b.Receipts, err = rows[Receipt](ctx, tx, receiptsSQL); return },
		func() (err error) { b.Orders, err = rows[OrderRow](ctx, tx, ordersSQL); return },
		func() (err error) { b.Balances, err = rows[Balance](ctx, tx, balancesSQL); return },
		func() (err error) { b.Refunds, err = rows[RefundRow](ctx, tx, refundsSQL); return },
		func() (err error) { b.Legs, err = rows[LegRow](ctx, tx, legsSQL); return },
		func() (err error) { b.Transfers, err = rows[TransferRow](ctx, tx, transfersSQL); return },
		func() (err error) { b.Stock, err = rows[StockRow](ctx, tx, stockSQL); return },
		func() (err error) { b.Journals, err = journals(ctx, tx); return },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func rows[T any](ctx context.Context, tx pgx.Tx, query string) ([]T, error) {
	found, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByName[T])
}

func journals(ctx context.Context, tx pgx.Tx) (list []Journal, err error) {
	found, err := tx.Query(ctx, linesSQL)
	if err != nil {
		return nil, err
	}
	var j Journal
	var l Line
	_, err = pgx.ForEachRow(found, []any{&j.ID, &j.Tenant, &j.Key, &j.Kind, &l.Code, &l.Currency, &l.Amount}, func() error {
		if len(list) == 0 || list[len(list)-1].ID != j.ID {
			list = append(list, Journal{ID: j.ID, Tenant: j.Tenant, Key: j.Key, Kind: j.Kind})
		}
		last := &list[len(list)-1]
		last.Lines = append(last.Lines, l)
		return nil
	})
	return list, err
}
