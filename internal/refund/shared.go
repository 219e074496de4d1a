package refund

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/share"
)

// undoing is a refund of a payment as sharing sees it. gone says that the money has gone back already.
func (r Refund) undoing(gone bool) share.Undoing {
	return share.Undoing{TenantID: r.TenantID, PaymentID: *r.PaymentID, RefundID: r.ID, OutRefundNo: r.OutRefundNo, Gone: gone, Asks: r.Asks}
}

// errAwaiting says that receivers have not given back yet what is refunded next.
var errAwaiting = errors.New("receivers have not given back yet")

// stepReserve is the time that a step at the channel needs: a question, a call, and one more question.
const stepReserve = 25 * time.Second

// collect has the receivers of a sharing give back what the refund takes back of them, before it goes out. What came back, and
// what the merchant pays for who does not give, is set aside for the refund as it comes. Errors: [errAwaiting], [*refusal] where
// the merchant has too little, or the database's.
func (s *Service) collect(ctx context.Context, r Refund) error {
	if r.Awaited == 0 || r.Calls > 0 {
		return nil
	}
	open, err := s.shares.GiveBack(ctx, r.ID, func(ctx context.Context, tx pgx.Tx, amount int64) error { return fund(ctx, tx, r.ID, amount) })
	if err == nil && !open {
		// Nobody gives any more: what is not there yet the merchant pays.
		err = s.inTx(ctx, func(tx pgx.Tx) error {
			if err := lockMoney(ctx, tx, r.PaymentID, nil); err != nil {
				return err
			}
			return fund(ctx, tx, r.ID, r.Awaited)
		})
	}
	if errors.Is(err, ledger.ErrInsufficient) {
		return &refusal{"a receiver of the payment does not give back, and the merchant has too little: " + ledger.ErrInsufficient.Error(), r.Calls}
	}
	if err != nil {
		return err
	}
	if until, bounded := ctx.Deadline(); open || bounded && time.Until(until) < stepReserve {
		return errAwaiting // the flow comes again
	}
	return nil
}

// fund sets a part of a refund aside that was awaited from a receiver: it came back to the merchant's account, or the merchant
// pays it; where the merchant has too little, as the tenant's policy says. The payment is locked. Error: [ledger.ErrInsufficient].
func fund(ctx context.Context, tx pgx.Tx, refundID, amount int64) error {
	r, err := lock(ctx, tx, refundID)
	if err != nil || r.State.Ended() {
		return err // what came back is the merchant's
	}
	return r.fund(ctx, tx, min(amount, r.Awaited), false)
}

// fund takes an awaited amount of a locked refund from the merchant. gone says that the money has gone back already: then what
// the merchant does not have is a receivable, whatever the policy.
func (r *Refund) fund(ctx context.Context, tx pgx.Tx, amount int64, gone bool) error {
	if amount == 0 {
		return nil
	}
	available, err := ledger.Lock(ctx, tx, r.TenantID, ledger.Line{Code: ledger.Merchant, Currency: r.Currency})
	if err != nil {
		return err
	}
	held := min(amount, max(0, available[0]))
	if held < amount && !gone {
		var policy string
		if err := tx.QueryRow(ctx, "SELECT refund_shortfall FROM tenants WHERE tenant_id = $1", r.TenantID).Scan(&policy); err != nil {
			return fmt.Errorf("read the tenant's policy: %w", err)
		}
		if policy != "allow_receivable" {
			return ledger.ErrInsufficient
		}
	}
	if held > 0 {
		h := ledger.Hold{TenantID: r.TenantID, Key: holdKey(r.OutRefundNo), Code: ledger.Merchant, Currency: r.Currency, Amount: held}
		if err := ledger.Extend(ctx, tx, h); err != nil {
			return err
		}
	}
	r.Awaited -= amount
	r.Held += held
	r.Receivable += amount - held
	tag, err := tx.Exec(ctx, "UPDATE refunds SET awaited = $2, held = $3, receivable = $4 WHERE id = $1 AND state IN ('PENDING', 'UNKNOWN')", r.ID, r.Awaited, r.Held, r.Receivable)
	if err != nil {
		return fmt.Errorf("set a part of the refund aside: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("set a part of refund %s aside: it has ended, though it is locked", r.OutRefundNo)
	}
	return nil
}

// unshare ends what a refund takes back of receivers: once the money has gone back they owe what they have not given.
func (b books) unshare(ctx context.Context, r Refund, gone bool) error {
	if r.PaymentID == nil {
		return nil
	}
	return share.Settle(ctx, b.tx, r.ID, gone, b.now)
}
