package refund

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/receivable"
	"github.com/paylatch/paylatch/internal/share"
)

var (
	//go:embed sql/fail.sql
	failSQL string
	//go:embed sql/lines.sql
	linesSQL string
)

// release ends an open refund whose money did not go back: what was held and reserved is free again.
func (b books) release(ctx context.Context, r Refund, why string) (payment.Verdict, error) {
	if r.Held > 0 {
		if _, err := ledger.Release(ctx, b.tx, r.TenantID, holdKey(r.OutRefundNo)); err != nil {
			return payment.Verdict{}, err
		}
	}
	if err := b.exec(ctx, failSQL, r.ID, why, nil, b.ev.OccurredAt, b.now, b.refundID(r), 0); err != nil {
		return payment.Verdict{}, err
	}
	if err := b.refunded(ctx, r, -r.Amount, 0, 0); err != nil {
		return payment.Verdict{}, err
	}
	v := payment.Verdict{State: payment.Done, Outcome: payment.RefundFailed, Reason: "refund " + r.OutRefundNo + ": " + why, Matter: string(Failed)}
	if err := b.undone(ctx, r, r.Held, &v); err != nil {
		return payment.Verdict{}, err
	}
	if r.Origin == FromSuspense {
		v.Alert = alert.MoneyAside // it is there still, and a person must say what becomes of it
	}
	return v, nil
}

// reverse takes back the journals of a refund that failed after it had succeeded: the amount is refundable again. The money is
// at the channel, whatever the balances: where more of the fee came back with the refund than was taken from the merchant,
// and the merchant has spent it, the rest is a receivable.
func (b books) reverse(ctx context.Context, r Refund) (payment.Verdict, error) {
	lines, freed, shortage, err := b.reversal(ctx, r)
	if err != nil {
		return payment.Verdict{}, err
	}
	journal, posted, err := ledger.Post(ctx, b.tx, ledger.Journal{TenantID: r.TenantID, Key: reversalKey(r.OutRefundNo), Kind: KindReversal, Lines: lines})
	if err != nil {
		return payment.Verdict{}, err
	}
	if !posted {
		return payment.Verdict{}, fmt.Errorf("refund %s is SUCCEEDED though its journal is reversed", r.OutRefundNo)
	}
	why := "the channel says that it failed after it had succeeded"
	if err := b.exec(ctx, failSQL, r.ID, why, journal, b.ev.OccurredAt, b.now, b.refundID(r), shortage); err != nil {
		return payment.Verdict{}, err
	}
	if err := b.refunded(ctx, r, 0, -r.Amount, -r.Excess); err != nil {
		return payment.Verdict{}, err
	}
	v := payment.Verdict{
		State: payment.Done, Outcome: payment.RefundReversed, Reason: "refund " + r.OutRefundNo + ": " + why, Journal: &journal,
		Matter: string(Failed), Alert: alert.RefundReversed,
	}
	if shortage > 0 {
		v.Reason += fmt.Sprintf("; %s of the fee that had come back is a receivable", money.Format(shortage, r.Currency))
	}
	return v, b.undone(ctx, r, freed, &v)
}

// reversal gives the lines that take a refund back, how much of them becomes free on its account, and how much the merchant has
// too little of, which is among the lines as a receivable.
func (b books) reversal(ctx context.Context, r Refund) (lines []ledger.Line, freed, shortage int64, err error) {
	rows, err := b.tx.Query(ctx, linesSQL, r.TenantID, []string{journalKey(r.OutRefundNo), feeKey(r.OutRefundNo)}, r.ID)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read the journals of refund %s: %w", r.OutRefundNo, err)
	}
	lines, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l ledger.Line, err error) {
		err = row.Scan(&l.Code, &l.Currency, &l.Amount)
		l.AllowNegative = l.Code != ledger.Merchant && l.Code != ledger.Suspense
		return l, err
	})
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read the journals of refund %s: %w", r.OutRefundNo, err)
	}
	lines = append(lines, ledger.Line{Code: ledger.Receivable, Currency: r.Currency, AllowNegative: true})
	available, err := ledger.Lock(ctx, b.tx, r.TenantID, lines...)
	if err != nil {
		return nil, 0, 0, err
	}
	for i, l := range lines {
		if l.Code == r.code() {
			freed = l.Amount
		}
		if l.Code == ledger.Merchant {
			shortage = max(0, -l.Amount-max(0, available[i]))
			lines[i].Amount += shortage
		}
	}
	lines[len(lines)-1].Amount -= shortage
	return lines, max(0, freed), shortage, nil
}

// undone follows a refund that did not happen: receivers of a sharing have their parts again, but for those that other refunds
// take back; and what of freed, which is the account's again, the merchant owes for others is set off.
func (b books) undone(ctx context.Context, r Refund, freed int64, v *payment.Verdict) error {
	if err := b.unshare(ctx, r, false); err != nil {
		return err
	}
	if r.PaymentID != nil {
		if err := share.TakeBackLate(ctx, b.tx, r.TenantID, *r.PaymentID, b.now); err != nil {
			return err
		}
	}
	netted, err := receivable.Net(ctx, b.tx, receivable.Free{
		TenantID: r.TenantID, PaymentID: r.PaymentID, EventID: r.EventID, Code: r.code(), Currency: r.Currency, Amount: freed,
		Why: "refund " + r.OutRefundNo + " failed", Now: b.now,
	})
	if netted > 0 {
		v.Reason += fmt.Sprintf("; %s of it is set off against what is owed", money.Format(netted, r.Currency))
	}
	return err
}
