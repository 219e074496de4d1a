package share

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/tenant"
)

// ErrOpen says that receivers of the payment wait for their results: until they are known nobody can say what a refund takes back.
var ErrOpen = errors.New("a sharing of this payment is under way")

// Journal kinds of what is taken back.
const (
	KindReturn = "share_return"
	KindOwed   = "share_owed"
)

// ReceivableCode is the ledger account of what a receiver has got and owes back, above zero.
func ReceivableCode(account string) string { return ledger.Receivable + ":" + receiverID(account) }

// ReturnState is how far one return is.
type ReturnState string

// The states of a return.
const (
	ReturnPending ReturnState = "PENDING"  // the receiver is told or asked, before the refund goes out
	Returned      ReturnState = "RETURNED" // it came back
	ReturnDue     ReturnState = "DUE"      // it will be owed once the money is refunded
	ReturnOwed    ReturnState = "OWED"
	ReturnCleared ReturnState = "CLEARED" // it was owed, and came back or was settled
	ReturnVoid    ReturnState = "VOID"    // the refund failed: nothing is taken back
)

// Undoing is a refund of a payment, as far as sharing is concerned with it.
type Undoing struct {
	TenantID    string
	PaymentID   int64
	RefundID    int64
	OutRefundNo string
	// Gone says that the money has gone back already. If not, and its channel Asks, receivers can give back first.
	Gone, Asks bool
}

// TakeBack says what a refund takes back of those who have a part of its payment, and writes it down. It runs in the
// transaction that reserves the refund, or that books one that was made elsewhere; the payment is locked and its numbers have
// the refund already. awaited is what receivers are asked for before the refund goes out ([Service.GiveBack]); the rest is owed
// once it has gone out ([Settle]).
//
// Each part is undone in proportion, over all refunds since it was shared: see [ClawBack].
// Error: [ErrOpen], where receivers wait for their results and the money has not gone back yet.
func TakeBack(ctx context.Context, tx pgx.Tx, u Undoing, now time.Time) (awaited int64, err error) {
	shared, err := many(ctx, tx, " WHERE s.payment_id = $1 ORDER BY s.id", u.PaymentID)
	if err != nil || len(shared) == 0 {
		return 0, err
	}
	var amount, undone int64
	var policy string
	var open bool
	if err := tx.QueryRow(ctx, undoneSQL, u.PaymentID).Scan(&amount, &undone, &policy, &open); err != nil {
		return 0, fmt.Errorf("read what is undone of the payment: %w", err)
	}
	if open && !u.Gone {
		return 0, ErrOpen
	}
	state := ReturnDue
	if !u.Gone && u.Asks && policy == tenant.Return {
		state = ReturnPending
	}
	for _, d := range dueOf(shared, amount, undone) {
		if err := takeBack(ctx, tx, u, d, state, now); err != nil {
			return 0, fmt.Errorf("take back from a receiver of %s: %w", d.share.OutOrderNo, err)
		}
		if state == ReturnPending {
			awaited += d.amount
		}
	}
	return awaited, nil
}

// due is what one leg gives back.
type due struct {
	share  Share
	leg    Leg
	amount int64
}

// dueOf says what each leg of a payment's sharings gives back when so much of the payment is undone.
func dueOf(shared []Share, amount, undone int64) (list []due) {
	var got []Got
	var before []int64
	for _, sh := range shared {
		for _, l := range sh.Legs {
			if l.State == LegSucceeded {
				// What is beyond the payment is no part of what is undone.
				got = append(got, Got{l.Account + " " + sh.OutOrderNo, l.Amount - l.Excess, sh.Base, amount - sh.Base})
				before = append(before, l.TakenBack)
				list = append(list, due{sh, l, 0})
			}
		}
	}
	for i, give := range ClawBack(amount, undone, got, before) {
		list[i].amount = give
	}
	return slices.DeleteFunc(list, func(d due) bool { return d.amount == 0 })
}

func takeBack(ctx context.Context, tx pgx.Tx, u Undoing, d due, state ReturnState, now time.Time) error {
	// A refund that failed and went out after all takes back anew, under numbers of its own.
	before, err := nextAttempt(ctx, tx, u.RefundID, d.leg.ID)
	if err != nil {
		return err
	}
	number := returnNumber(u.OutRefundNo, d.share.OutOrderNo, d.leg.Account, before)
	if err := exactly(ctx, tx, "write the return down", createReturnSQL, u.TenantID, d.leg.ID, u.RefundID, d.amount, state, number, before, now); err != nil {
		return err
	}
	if err := exactly(ctx, tx, "take back from the leg", takeBackSQL, d.leg.ID, d.amount); err != nil {
		return err
	}
	return exactly(ctx, tx, "take back from what is shared", sharedSQL, d.share.PaymentID, -d.amount)
}

// TakeBackLate lets receivers owe their parts of refunds that went out before it was known that they were to give them back:
// another refund, which failed since, had done so. The payment is locked, and its numbers are as they are without that refund.
func TakeBackLate(ctx context.Context, tx pgx.Tx, tenantID string, paymentID int64, now time.Time) error {
	return takeBackLate(ctx, tx, tenantID, paymentID, now, func(Leg) bool { return true })
}

// takeBackLate lets legs of a payment that are of interest owe their parts of refunds that went out before: they were made at the
// channel, or the leg was taken for closed. The payment is locked.
func takeBackLate(ctx context.Context, tx pgx.Tx, tenantID string, paymentID int64, now time.Time, of func(Leg) bool) error {
	u := Undoing{TenantID: tenantID, PaymentID: paymentID}
	err := tx.QueryRow(ctx, "SELECT id, out_refund_no FROM refunds WHERE payment_id = $1 AND state = 'SUCCEEDED' ORDER BY id DESC LIMIT 1", paymentID).Scan(&u.RefundID, &u.OutRefundNo)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for refunds that went out before: %w", err)
	}
	shared, err := many(ctx, tx, " WHERE s.payment_id = $1 ORDER BY s.id", paymentID)
	if err != nil || len(shared) == 0 {
		return err
	}
	amount, undone, err := undoneOf(ctx, tx, paymentID)
	if err != nil {
		return err
	}
	found := false
	for _, d := range dueOf(shared, amount, undone) {
		if !of(d.leg) {
			continue
		}
		found = true
		if err := takeBack(ctx, tx, u, d, ReturnDue, now); err != nil {
			return fmt.Errorf("take back from a receiver of %s: %w", d.share.OutOrderNo, err)
		}
	}
	if !found {
		return nil
	}
	return Settle(ctx, tx, u.RefundID, true, now)
}

// undoneOf says what a payment amounts to, and how much of it is undone.
func undoneOf(ctx context.Context, tx pgx.Tx, paymentID int64) (amount, undone int64, err error) {
	if err := tx.QueryRow(ctx, undoneSQL, paymentID).Scan(&amount, &undone, nil, nil); err != nil {
		return 0, 0, fmt.Errorf("read what is undone of the payment: %w", err)
	}
	return amount, undone, nil
}

// nextAttempt counts what a refund has taken back of a leg, or tried to: each has a number of its own. The payment is locked.
func nextAttempt(ctx context.Context, tx pgx.Tx, refundID, legID int64) (n int, err error) {
	err = tx.QueryRow(ctx, "SELECT coalesce(max(attempt) + 1, 0) FROM share_returns WHERE refund_id = $1 AND leg_id = $2", refundID, legID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for earlier returns: %w", err)
	}
	return n, nil
}

// returnNumber is a return's number at the channel, of business fields alone. 36 letters and digits fit every channel.
func returnNumber(outRefundNo, outOrderNo, account string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d", outRefundNo, outOrderNo, account, attempt))
	return "back" + hex.EncodeToString(sum[:16])
}

// Settle ends what a refund takes back, in the transaction that ends the refund: gone says that the money has gone back to the
// payer. Then what receivers have not given back they owe; else nothing more is taken back. What came back stays back, and what
// is under way at the channel is followed to its end. The payment is locked.
func Settle(ctx context.Context, tx pgx.Tx, refundID int64, gone bool, now time.Time) error {
	list, err := returns(ctx, tx, " WHERE r.refund_id = $1 ORDER BY l.account, r.id", refundID)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := settle(ctx, tx, r, gone, now); err != nil {
			return fmt.Errorf("settle the return %s: %w", r.OutReturnNo, err)
		}
	}
	return nil
}

func settle(ctx context.Context, tx pgx.Tx, r Return, gone bool, now time.Time) error {
	switch {
	case r.State == ReturnPending && r.Sends > 0 && !r.Collecting && !gone:
		// The receiver may have been asked with success: the answer decides.
		return exactly(ctx, tx, "follow the return", moveReturnSQL, r.ID, ReturnPending, "", true, now, ReturnPending)
	case r.State == ReturnPending && gone:
		if err := exactly(ctx, tx, "let the return be due", moveReturnSQL, r.ID, ReturnDue, "", false, now, ReturnPending); err != nil {
			return err
		}
		r.State = ReturnDue
		if err := owe(ctx, tx, r, now); err != nil || r.Sends == 0 {
			return err
		}
		return exactly(ctx, tx, "follow the return", moveReturnSQL, r.ID, ReturnOwed, "", true, now, ReturnOwed)
	case r.State == ReturnDue && gone:
		return owe(ctx, tx, r, now)
	case !gone && (r.State == ReturnDue || r.State == ReturnPending && r.Sends == 0 || r.State == ReturnOwed && !r.Collecting):
		return void(ctx, tx, r, "", now)
	}
	return nil
}

// owe books what a receiver has got and owes back.
func owe(ctx context.Context, tx pgx.Tx, r Return, now time.Time) error {
	id, err := post(ctx, tx, r, KindOwed, "share_owed:"+r.OutReturnNo, ReceiverCode(r.Account), ReceivableCode(r.Account))
	if err != nil {
		return err
	}
	return exactly(ctx, tx, "let the receiver owe", oweSQL, r.ID, id, now)
}

// void ends a return of which nothing comes: what was owed is not owed, and the receiver has its part again.
func void(ctx context.Context, tx pgx.Tx, r Return, reason string, now time.Time) error {
	if r.State == ReturnOwed {
		if _, err := post(ctx, tx, r, KindOwed, "share_owed:"+r.OutReturnNo+":reversed", ReceivableCode(r.Account), ReceiverCode(r.Account)); err != nil {
			return err
		}
	}
	if err := exactly(ctx, tx, "void the return", moveReturnSQL, r.ID, ReturnVoid, reason, false, now, r.State); err != nil {
		return err
	}
	if err := exactly(ctx, tx, "give the leg its part again", undoTakeBackSQL, r.LegID, r.Amount); err != nil {
		return err
	}
	return exactly(ctx, tx, "give the payment's part again", sharedSQL, r.PaymentID, r.Amount)
}

// post books a return's amount from one account to another, once: the caller's row is locked, and the key is the row's.
func post(ctx context.Context, tx pgx.Tx, r Return, kind, key, from, to string) (int64, error) {
	id, posted, err := ledger.Post(ctx, tx, ledger.Journal{TenantID: r.TenantID, Key: key, Kind: kind, Lines: []ledger.Line{
		{Code: from, Currency: r.Currency, Amount: -r.Amount}, {Code: to, Currency: r.Currency, Amount: r.Amount},
	}})
	if err == nil && !posted {
		err = fmt.Errorf("journal %s is there, though the return is %s", key, r.State)
	}
	return id, err
}
