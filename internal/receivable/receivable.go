// Package receivable ends what is owed. Money can leave a channel beyond what could be taken from the account that bears it;
// then the rest stands on `receivable`, below zero, and the refund or the paid leg says how much of it is its own. What is owed
// ends in four ways: it is set off against what becomes free of the same payment ([Net]), or an operator says that it was taken
// from the merchant's balance, paid in another way, or given up ([Settle]).
//
// Each settlement is a row and a journal, in the transaction of whoever calls, under the lock of the payment or the event
// that it is of.
package receivable

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/ledger"
)

// Kind is the kind of a settlement's journal.
const Kind = "receivable_settled"

// How says in what way something is owed no more.
type How string

// The ways. Netted is the program's own; the others are an operator's word.
const (
	Netted     How = "netted"
	Balance    How = "balance"     // through the merchant's account
	Outside    How = "outside"     // paid in a way that no channel knows of
	WrittenOff How = "written_off" // given up
)

// Ways lists what an operator may say.
func Ways() []How { return []How{Balance, Outside, WrittenOff} }

// code is the other side of a settlement's journal.
func (h How) code(bears string) string {
	switch h {
	case Outside:
		return ledger.Outside
	case WrittenOff:
		return ledger.WrittenOff
	default:
		return bears
	}
}

// ErrNothing says that nothing is owed.
var ErrNothing = errors.New("nothing is owed")

// Debt is what the merchant owes for a refund or a leg. Owed is in minor units of Currency.
type Debt struct {
	RefundID *int64 `db:"refund_id"`
	LegID    *int64 `db:"leg_id"`
	// Name says in keys of what it is: the business fields, not the row.
	Name     string `db:"name"`
	Owed     int64  `db:"owed"`
	Currency string `db:"currency"`
}

// Free is an amount that has become available on the account Code, of a payment or of the money in suspense that an event brought.
type Free struct {
	TenantID           string
	PaymentID, EventID *int64
	Code, Currency     string
	Amount             int64
	Why                string
	Now                time.Time
}

var (
	//go:embed sql/owed.sql
	owedSQL string
	//go:embed sql/settle_refund.sql
	settleRefundSQL string
	//go:embed sql/settle_leg.sql
	settleLegSQL string
	//go:embed sql/settlement.sql
	settlementSQL string
	//go:embed sql/within.sql
	withinSQL string
	//go:embed sql/within_legs.sql
	withinLegsSQL string
)

// Net sets what is owed for a payment, or for money in suspense, off against what has just become free of it: nobody owes and has
// at once. It gives what was set off. What of refunds and legs was beyond the payment, and is within it by now, says so.
func Net(ctx context.Context, tx pgx.Tx, f Free) (netted int64, err error) {
	if f.PaymentID != nil {
		for _, within := range []string{withinSQL, withinLegsSQL} {
			if _, err := tx.Exec(ctx, within, *f.PaymentID); err != nil {
				return 0, fmt.Errorf("say what is beyond the payment: %w", err)
			}
		}
	}
	if f.Amount <= 0 {
		return 0, nil
	}
	debts, err := Owed(ctx, tx, f.PaymentID, f.EventID)
	if err != nil || len(debts) == 0 {
		return 0, err
	}
	available, err := ledger.Lock(ctx, tx, f.TenantID, ledger.Line{Code: f.Code, Currency: f.Currency},
		ledger.Line{Code: ledger.Receivable, Currency: f.Currency, AllowNegative: true})
	if err != nil {
		return 0, err
	}
	free := min(f.Amount, max(0, available[0]))
	for _, d := range debts {
		part := min(d.Owed, free-netted)
		if part <= 0 {
			break
		}
		if _, err := Settle(ctx, tx, f.TenantID, d, part, Netted, f.Code, f.Why, f.Now); err != nil {
			return netted, err
		}
		netted += part
	}
	return netted, nil
}

// Owed lists what the merchant owes for a payment, or for money in suspense: oldest first.
func Owed(ctx context.Context, tx pgx.Tx, paymentID, eventID *int64) ([]Debt, error) {
	rows, err := tx.Query(ctx, owedSQL, paymentID, eventID)
	if err != nil {
		return nil, fmt.Errorf("read what is owed: %w", err)
	}
	debts, err := pgx.CollectRows(rows, pgx.RowToStructByName[Debt])
	if err != nil {
		return nil, fmt.Errorf("read what is owed: %w", err)
	}
	return debts, nil
}

// Settle ends a part of a debt of the merchant's. bears is the account that has to bear it. Error: [ledger.ErrInsufficient]
// where that has too little.
func Settle(ctx context.Context, tx pgx.Tx, tenantID string, d Debt, amount int64, how How, bears, reason string, now time.Time) (journal int64, err error) {
	var before int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM settlements WHERE refund_id = $1 OR leg_id = $2", d.RefundID, d.LegID).Scan(&before); err != nil {
		return 0, fmt.Errorf("count the settlements of %s: %w", d.Name, err)
	}
	journal, err = post(ctx, tx, ledger.Journal{TenantID: tenantID, Key: fmt.Sprintf("settled:%s:%d", d.Name, before), Kind: Kind, Lines: []ledger.Line{
		{Code: ledger.Receivable, Currency: d.Currency, Amount: amount, AllowNegative: true},
		{Code: how.code(bears), Currency: d.Currency, Amount: -amount, AllowNegative: how.code(bears) != bears},
	}})
	if err != nil {
		return 0, err
	}
	row, id := settleRefundSQL, d.RefundID
	if id == nil {
		row, id = settleLegSQL, d.LegID
	}
	tag, err := tx.Exec(ctx, row, *id, amount)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows, though it is locked", tag.RowsAffected())
	}
	if err != nil {
		return 0, fmt.Errorf("settle %s: %w", d.Name, err)
	}
	return journal, record(ctx, tx, tenantID, d.RefundID, d.LegID, nil, amount, d.Currency, how, reason, journal, now)
}

// Returned ends what a receiver owes: a return, whole. account is its receivable, which is above zero by what it owes. With
// [Balance] it has come to the merchant's account.
func Returned(ctx context.Context, tx pgx.Tx, tenantID string, returnID int64, number, account, currency string, amount int64, how How, reason string, now time.Time) (journal int64, err error) {
	other := how.code(ledger.Merchant)
	journal, err = post(ctx, tx, ledger.Journal{TenantID: tenantID, Key: "settled:return:" + number, Kind: Kind, Lines: []ledger.Line{
		{Code: account, Currency: currency, Amount: -amount},
		{Code: other, Currency: currency, Amount: amount, AllowNegative: other != ledger.Merchant},
	}})
	if err != nil {
		return 0, err
	}
	return journal, record(ctx, tx, tenantID, nil, nil, &returnID, amount, currency, how, reason, journal, now)
}

// SettledRefund tells whether an operator has settled something of a refund.
func SettledRefund(ctx context.Context, tx pgx.Tx, refundID int64) (bool, error) {
	return settled(ctx, tx, "SELECT EXISTS (SELECT FROM settlements WHERE how <> 'netted' AND refund_id = $1)", refundID)
}

// SettledLeg tells whether an operator has settled something that the merchant owed for a leg.
func SettledLeg(ctx context.Context, tx pgx.Tx, legID int64) (bool, error) {
	return settled(ctx, tx, "SELECT EXISTS (SELECT FROM settlements WHERE how <> 'netted' AND leg_id = $1)", legID)
}

// SettledReturns tells whether an operator has settled something that the receiver of a leg owed.
func SettledReturns(ctx context.Context, tx pgx.Tx, legID int64) (bool, error) {
	return settled(ctx, tx, "SELECT EXISTS (SELECT FROM settlements s JOIN share_returns r ON r.id = s.return_id WHERE r.leg_id = $1)", legID)
}

func settled(ctx context.Context, tx pgx.Tx, sql string, id int64) (before bool, err error) {
	if err := tx.QueryRow(ctx, sql, id).Scan(&before); err != nil {
		return false, fmt.Errorf("look whether it was settled: %w", err)
	}
	return before, nil
}

func post(ctx context.Context, tx pgx.Tx, j ledger.Journal) (int64, error) {
	id, posted, err := ledger.Post(ctx, tx, j)
	if err == nil && !posted {
		err = fmt.Errorf("journal %s is there, though what it settles is owed", j.Key)
	}
	return id, err
}

func record(ctx context.Context, tx pgx.Tx, tenantID string, refundID, legID, returnID *int64, amount int64, currency string, how How, reason string, journal int64, now time.Time) error {
	if _, err := tx.Exec(ctx, settlementSQL, tenantID, refundID, legID, returnID, amount, currency, how, reason, journal, now); err != nil {
		return fmt.Errorf("write the settlement down: %w", err)
	}
	return nil
}
