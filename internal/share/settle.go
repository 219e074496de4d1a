package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/receivable"
)

// ErrCollected says that what is owed is being collected: the channel's answer decides, and it must not be settled twice.
var ErrCollected = errors.New("it is being collected at the channel: wait for the answer")

// SettleReceiver ends all that a receiver of a sharing owes, as an operator says: one journal for each return, and a record of who
// and why. With [receivable.Balance] it has come to the merchant's account. Said again it changes nothing. Errors: [ErrNotFound],
// [ErrCollected], [receivable.ErrNothing] where nothing was ever owed and settled.
func SettleReceiver(ctx context.Context, pool *pgxpool.Pool, tenantID, outOrderNo, account string, how receivable.How, reason string, now time.Time) (settled int64, err error) {
	return settling(ctx, pool, tenantID, outOrderNo, account, "receiver", how, reason, func(tx pgx.Tx, sh Share, leg Leg) (int64, error) {
		owed, err := returns(ctx, tx, " WHERE r.leg_id = $1 AND r.state = 'OWED' ORDER BY r.id FOR UPDATE OF r", leg.ID)
		if err != nil {
			return 0, err
		}
		var sum int64
		for _, r := range owed {
			if r.Collecting {
				return 0, ErrCollected
			}
			id, err := receivable.Returned(ctx, tx, tenantID, r.ID, r.OutReturnNo, ReceivableCode(account), r.Currency, r.Amount, how, reason, now)
			if err != nil {
				return 0, err
			}
			if err := exactly(ctx, tx, "mark the return as settled", returnedSQL, r.ID, ReturnCleared, id, "", now, r.State); err != nil {
				return 0, err
			}
			sum += r.Amount
		}
		if how == receivable.Balance && sum > 0 {
			return sum, net(ctx, tx, tenantID, sh.PaymentID, sh.Currency, sum, "what "+account+" owed came in", now)
		}
		return sum, nil
	})
}

// SettleLeg ends all that the merchant owes for a receiver's part that was paid after all, in one journal; else as
// [SettleReceiver]. Error besides: [ledger.ErrInsufficient] where the merchant's balance shall bear it and has too little.
func SettleLeg(ctx context.Context, pool *pgxpool.Pool, tenantID, outOrderNo, account string, how receivable.How, reason string, now time.Time) (settled int64, err error) {
	return settling(ctx, pool, tenantID, outOrderNo, account, "merchant", how, reason, func(tx pgx.Tx, sh Share, leg Leg) (int64, error) {
		owed := leg.Receivable - leg.Settled
		if owed <= 0 {
			return 0, nil
		}
		debt := receivable.Debt{LegID: &leg.ID, Name: sh.journalKey(leg), Owed: owed, Currency: sh.Currency}
		_, err := receivable.Settle(ctx, tx, tenantID, debt, owed, how, ledger.Merchant, reason, now)
		return owed, err
	})
}

// settling runs end under the locks of the payment and the sharing, and records it. Where nothing is owed it must have been
// settled before.
func settling(ctx context.Context, pool *pgxpool.Pool, tenantID, outOrderNo, account, debtor string, how receivable.How, reason string, end func(pgx.Tx, Share, Leg) (int64, error)) (settled int64, err error) {
	err = database.InTx(ctx, pool, func(tx pgx.Tx) error {
		sh, err := lockByNumber(ctx, tx, tenantID, outOrderNo)
		if err != nil {
			return err
		}
		leg, found := sh.leg(account)
		if !found {
			return fmt.Errorf("receiver %s: %w", account, ErrNotFound)
		}
		if settled, err = end(tx, sh, leg); err != nil {
			return err
		}
		if settled > 0 {
			return audit.Record(ctx, tx, tenantID, audit.ReceivableSettled, "sharing "+outOrderNo+", "+debtor+" for "+account, string(how)+": "+reason)
		}
		was := receivable.SettledLeg
		if debtor == "receiver" {
			was = receivable.SettledReturns
		}
		before, err := was(ctx, tx, leg.ID)
		if err == nil && !before {
			err = receivable.ErrNothing
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("settle what is owed of sharing %s: %w", outOrderNo, err)
	}
	return settled, nil
}
