package refund

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
)

var (
	//go:embed sql/succeed.sql
	succeedSQL string
	//go:embed sql/divide.sql
	divideSQL string
	//go:embed sql/refunded.sql
	refundedSQL string
)

// books moves a refund's money within the transaction that settles an event about it. The payment and the refund are locked.
type books struct {
	tx  pgx.Tx
	now time.Time
	ev  payment.Event // zero where it is not an event that moves it
}

// code is the account that a refund is taken from.
func (r Refund) code() string {
	if r.EventID != nil {
		return ledger.Suspense
	}
	return ledger.Merchant
}

// confirm ends an open refund whose money has gone back: the hold is captured, and what was reserved is refunded.
func (b books) confirm(ctx context.Context, r Refund) (payment.Verdict, error) {
	if err := r.fund(ctx, b.tx, r.Awaited, true); err != nil {
		return payment.Verdict{}, err
	}
	journal, err := b.post(ctx, r, true)
	if err != nil {
		return payment.Verdict{}, err
	}
	if err := b.succeed(ctx, r, journal); err != nil {
		return payment.Verdict{}, err
	}
	if err := b.refunded(ctx, r, -r.Amount, r.Amount, 0); err != nil {
		return payment.Verdict{}, err
	}
	if err := b.unshare(ctx, r, true); err != nil {
		return payment.Verdict{}, err
	}
	v := payment.Verdict{State: payment.Done, Outcome: payment.Refunded, Reason: "refund " + r.OutRefundNo, Journal: &journal, Matter: string(Succeeded)}
	if r.Receivable > 0 {
		v.Alert, v.Reason = alert.ReceivableBooked, fmt.Sprintf("refund %s: %s of it is a receivable", r.OutRefundNo, money.Format(r.Receivable, r.Currency))
	}
	return v, nil
}

// adopt books a refund whose money has gone back though nothing is set aside for it: it was made in the channel's console, or
// succeeded after it had failed. As far as the captured amount and the account reach it is taken from there; the rest is a
// receivable, never a balance below zero.
func (b books) adopt(ctx context.Context, r Refund) (payment.Verdict, error) {
	left, err := b.left(ctx, r)
	if err != nil {
		return payment.Verdict{}, err
	}
	within := min(r.Amount, max(0, left))
	r.Excess = r.Amount - within
	channelLine := ledger.Line{Code: ledger.ChannelCode(r.Channel, r.Account), Currency: r.Currency, AllowNegative: true}
	available, err := ledger.Lock(ctx, b.tx, r.TenantID, ledger.Line{Code: r.code(), Currency: r.Currency},
		ledger.Line{Code: ledger.Receivable, Currency: r.Currency, AllowNegative: true}, channelLine)
	if err != nil {
		return payment.Verdict{}, err
	}
	r.Held = min(within, max(0, available[0]))
	r.Receivable = r.Amount - r.Held
	if err := b.exec(ctx, divideSQL, r.ID, r.Held, r.Receivable, r.Excess); err != nil {
		return payment.Verdict{}, err
	}
	journal, err := b.post(ctx, r, false)
	if err != nil {
		return payment.Verdict{}, err
	}
	if err := b.succeed(ctx, r, journal); err != nil {
		return payment.Verdict{}, err
	}
	if err := b.refunded(ctx, r, 0, r.Amount, r.Excess); err != nil {
		return payment.Verdict{}, err
	}
	if r.PaymentID != nil {
		if _, err := share.TakeBack(ctx, b.tx, r.undoing(true), b.now); err != nil {
			return payment.Verdict{}, err
		}
	}
	if err := b.unshare(ctx, r, true); err != nil {
		return payment.Verdict{}, err
	}
	v := payment.Verdict{State: payment.Done, Outcome: payment.RefundAdopted, Journal: &journal, Matter: string(Succeeded)}
	v.Reason = "refund " + r.OutRefundNo + ", made at the channel"
	if r.Origin != ByChannel {
		v.Reason = "refund " + r.OutRefundNo + " succeeded after it had failed"
	}
	if r.Receivable > 0 {
		v.Alert = alert.ReceivableBooked
		v.Reason += fmt.Sprintf(": %s of it is a receivable, %s beyond what was captured", money.Format(r.Receivable, r.Currency), money.Format(r.Excess, r.Currency))
	}
	return v, nil
}

// left is what of the captured amount, or of the money in suspense, neither went back nor is about to, nor is on its way to
// receivers of a sharing. What these have of it already they owe then.
func (b books) left(ctx context.Context, r Refund) (left int64, err error) {
	if r.EventID != nil {
		m, err := lockSuspense(ctx, b.tx, r.TenantID, *r.EventID)
		if r.State.Ended() {
			return m.left(), err
		}
		return m.left() + r.Amount, err // its own row is among the open ones
	}
	err = b.tx.QueryRow(ctx, "SELECT amount - refund_pending - refunded_amount - shared_pending FROM payments WHERE id = $1", *r.PaymentID).Scan(&left)
	if err != nil {
		return 0, fmt.Errorf("read what is left of the payment: %w", err)
	}
	return left, nil
}

// post books the refund: from its account, as far as it was held or is there, and as a receivable, to the channel. captured
// says that what it takes from its account is on hold.
func (b books) post(ctx context.Context, r Refund, captured bool) (journal int64, err error) {
	j := ledger.Journal{TenantID: r.TenantID, Key: journalKey(r.OutRefundNo), Kind: KindRefund, Lines: []ledger.Line{
		{Code: ledger.ChannelCode(r.Channel, r.Account), Currency: r.Currency, Amount: r.Amount, AllowNegative: true},
		{Code: ledger.Receivable, Currency: r.Currency, Amount: -r.Receivable, AllowNegative: true},
	}}
	var posted bool
	if captured && r.Held > 0 {
		journal, posted, err = ledger.Capture(ctx, b.tx, holdKey(r.OutRefundNo), r.Held, j)
	} else {
		j.Lines = append(j.Lines, ledger.Line{Code: r.code(), Currency: r.Currency, Amount: -r.Held})
		journal, posted, err = ledger.Post(ctx, b.tx, j)
	}
	if err != nil {
		return 0, err
	}
	if !posted {
		return 0, fmt.Errorf("journal %s is there, though refund %s is %s", j.Key, r.OutRefundNo, r.State)
	}
	return journal, b.postFee(ctx, r)
}

// postFee gives back what the channel says it gave back of its fee, in its own rounding. Where it does not tell, nothing is
// given back here; money in suspense bore no fee.
func (b books) postFee(ctx context.Context, r Refund) error {
	fee := b.fee(r)
	if fee == nil || *fee == 0 || r.EventID != nil {
		return nil
	}
	_, _, err := ledger.Post(ctx, b.tx, ledger.Journal{TenantID: r.TenantID, Key: feeKey(r.OutRefundNo), Kind: KindFee, Lines: []ledger.Line{
		{Code: ledger.Fees, Currency: r.Currency, Amount: -*fee, AllowNegative: true},
		{Code: ledger.Merchant, Currency: r.Currency, Amount: *fee},
	}})
	return err
}

// fee is what the event tells of the fee, or the channel's answer before it.
func (b books) fee(r Refund) *int64 {
	if fee := gaveBack(b.ev.Fee); fee != nil {
		return fee
	}
	return r.Fee
}

// gaveBack is a fee that came back. A channel that takes one more for the refund is the bill's business.
func gaveBack(fee *int64) *int64 {
	if fee == nil || *fee < 0 {
		return nil
	}
	return fee
}

func (b books) succeed(ctx context.Context, r Refund, journal int64) error {
	return b.exec(ctx, succeedSQL, r.ID, journal, b.ev.OccurredAt, b.now, b.refundID(r), b.fee(r))
}

// refunded moves the payment's numbers: what is reserved, what went back, and what of that is beyond the captured amount.
// Money in suspense is of no payment's numbers.
func (b books) refunded(ctx context.Context, r Refund, pending, done, excess int64) error {
	if r.PaymentID == nil {
		return nil
	}
	return b.exec(ctx, refundedSQL, *r.PaymentID, pending, done, excess)
}

// refundID is the channel's number of the refund, as far as it is known by now.
func (b books) refundID(r Refund) string {
	if r.RefundID == "" && b.ev.ID != 0 {
		return b.ev.Subject()
	}
	return r.RefundID
}

// exec runs a guarded update under the row's lock, where anything but one row is a fault of ours.
func (b books) exec(ctx context.Context, update string, args ...any) error {
	tag, err := b.tx.Exec(ctx, update, args...)
	if err != nil {
		return fmt.Errorf("move the refund: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("move the refund: %d rows, though it is locked", tag.RowsAffected())
	}
	return nil
}
