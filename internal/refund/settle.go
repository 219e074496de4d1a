package refund

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/receivable"
)

// Settle ends all that the merchant owes for a refund, as an operator says: one journal, and a record of who and why. Said again it
// changes nothing. Errors: [ErrNotFound], [receivable.ErrNothing] where nothing was ever owed and settled,
// [ledger.ErrInsufficient] where the merchant's balance shall bear it and has too little.
func Settle(ctx context.Context, pool *pgxpool.Pool, tenantID, outRefundNo string, how receivable.How, reason string, now time.Time) (r Refund, err error) {
	err = database.InTx(ctx, pool, func(tx pgx.Tx) error {
		if r, err = Find(ctx, tx, tenantID, outRefundNo); err != nil {
			return err
		}
		if err := lockMoney(ctx, tx, r.PaymentID, r.EventID); err != nil {
			return err
		}
		if r, err = lock(ctx, tx, r.ID); err != nil {
			return err
		}
		if r.Owed() <= 0 {
			settled, err := receivable.SettledRefund(ctx, tx, r.ID)
			if err == nil && !settled {
				err = receivable.ErrNothing
			}
			return err
		}
		debt := receivable.Debt{RefundID: &r.ID, Name: "refund:" + r.OutRefundNo, Owed: r.Owed(), Currency: r.Currency}
		if _, err := receivable.Settle(ctx, tx, tenantID, debt, debt.Owed, how, ledger.Merchant, reason, now); err != nil {
			return err
		}
		if err := audit.Record(ctx, tx, tenantID, audit.ReceivableSettled, "refund "+outRefundNo, string(how)+": "+reason); err != nil {
			return err
		}
		r, err = lock(ctx, tx, r.ID)
		return err
	})
	if err != nil {
		return Refund{}, fmt.Errorf("settle refund %s: %w", outRefundNo, err)
	}
	return r, nil
}
