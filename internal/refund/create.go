package refund

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
)

var (
	//go:embed sql/reserve.sql
	reserveSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/credit.sql
	creditSQL string
	//go:embed sql/suspense.sql
	suspenseSQL string
)

// Request is what a merchant asks for; it is taken as valid.
type Request struct {
	TenantID    string
	OutTradeNo  string
	OutRefundNo string
	Amount      int64 // minor units of the payment's currency, above 0
	Reason      string
}

// Create reserves the amount on the payment, holds it on the merchant's account and writes the refund down, in one
// transaction; then its flow calls the channel. created is false when the refund was there before, and it comes back as it is
// now. What receivers of a sharing have of it they give back, or owe. then runs last in the transaction. Errors: [ErrNumberReused], [ErrNumberReserved], [ErrExceeds], [share.ErrOpen], [ErrNotPaid], [ErrPaymentNotFound], [ledger.ErrInsufficient].
func (s *Service) Create(ctx context.Context, r Request, then ...Then) (made Refund, created bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		made, created, err = s.create(ctx, tx, r)
		return last(tx, made, created, err, then)
	})
	if errors.Is(err, errTaken) {
		// Somebody took the number at this moment, for this refund or another: what was begun is rolled back.
		created = false
		made, err = existing(ctx, s.pool, r)
	}
	if err != nil {
		return Refund{}, false, fmt.Errorf("refund %s: %w", r.OutRefundNo, err)
	}
	if created {
		s.begun(ctx, made)
	}
	return made, created, nil
}

// Then runs last in the transaction of what a merchant asked for, with the refund as it is after it.
type Then func(tx pgx.Tx, r Refund, created bool) error

func last(tx pgx.Tx, r Refund, created bool, err error, then []Then) error {
	return database.Last(err, then, func(do Then) error { return do(tx, r, created) })
}

// errTaken says that the number of a refund that was begun belongs to one that was committed meanwhile.
var errTaken = errors.New("the number was taken at this moment")

// ErrPaymentNotFound says that there is no such payment.
var ErrPaymentNotFound = errors.New("no such payment")

func (s *Service) create(ctx context.Context, tx pgx.Tx, r Request) (Refund, bool, error) {
	made, err := existing(ctx, tx, r)
	if !errors.Is(err, ErrNotFound) {
		return made, false, err
	}
	if reserved(r.OutRefundNo) {
		return Refund{}, false, ErrNumberReserved
	}
	var paymentID int64
	var currency string
	err = tx.QueryRow(ctx, reserveSQL, r.TenantID, r.OutTradeNo, r.Amount).Scan(&paymentID, &currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.refused(ctx, tx, r)
	}
	if err != nil {
		return Refund{}, false, fmt.Errorf("reserve the amount: %w", err)
	}
	n := newRefund{
		tenantID: r.TenantID, number: r.OutRefundNo, origin: ByMerchant, paymentID: &paymentID,
		amount: r.Amount, currency: currency, reason: r.Reason, held: r.Amount,
	}
	if err := tx.QueryRow(ctx, creditSQL, paymentID).Scan(&n.accountID, &n.transactionID); err != nil {
		return Refund{}, false, fmt.Errorf("find the transaction that paid: %w", err)
	}
	if made, err = s.insert(ctx, tx, n); err != nil {
		return Refund{}, false, err
	}
	if made.Awaited, err = share.TakeBack(ctx, tx, made.undoing(false), s.now()); err != nil {
		return Refund{}, false, err
	}
	if err := holdMerchant(ctx, tx, &made); err != nil {
		return Refund{}, false, err
	}
	return made, true, nil
}

// existing finds the refund that has the request's number, if it is the same refund.
func existing(ctx context.Context, db payment.Querier, r Request) (Refund, error) {
	there, err := Find(ctx, db, r.TenantID, r.OutRefundNo)
	if err != nil {
		return Refund{}, err
	}
	if there.PaymentID == nil || there.OutTradeNo != r.OutTradeNo || there.Amount != r.Amount {
		return Refund{}, ErrNumberReused
	}
	return there, nil
}

// refused looks why nothing was reserved.
func (s *Service) refused(ctx context.Context, tx pgx.Tx, r Request) (Refund, bool, error) {
	// A twin may have reserved the amount while this one waited for the payment's row.
	if made, err := existing(ctx, tx, r); !errors.Is(err, ErrNotFound) {
		return made, false, err
	}
	var paid bool
	err := tx.QueryRow(ctx, "SELECT state IN ('PAID', 'SHIPPED', 'COMPLETED') FROM payments WHERE tenant_id = $1 AND out_trade_no = $2", r.TenantID, r.OutTradeNo).Scan(&paid)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Refund{}, false, ErrPaymentNotFound
	case err != nil:
		return Refund{}, false, fmt.Errorf("read the payment: %w", err)
	case !paid:
		return Refund{}, false, ErrNotPaid
	}
	return Refund{}, false, ErrExceeds
}

// holdMerchant sets the amount aside on the merchant's account. Where the merchant has too little, the tenant's policy says
// whether the refund is refused or the rest becomes a receivable once the money is gone.
func holdMerchant(ctx context.Context, tx pgx.Tx, r *Refund) error {
	var policy string
	if err := tx.QueryRow(ctx, "SELECT refund_shortfall FROM tenants WHERE tenant_id = $1", r.TenantID).Scan(&policy); err != nil {
		return fmt.Errorf("read the tenant's policy: %w", err)
	}
	r.Held = r.Amount - r.Awaited
	if policy == "allow_receivable" {
		available, err := ledger.Lock(ctx, tx, r.TenantID, ledger.Line{Code: ledger.Merchant, Currency: r.Currency})
		if err != nil {
			return err
		}
		r.Receivable = r.Held - min(r.Held, max(0, available[0]))
		r.Held -= r.Receivable
	}
	if r.Held < r.Amount {
		if _, err := tx.Exec(ctx, "UPDATE refunds SET awaited = $2, held = $3, receivable = $4 WHERE id = $1", r.ID, r.Awaited, r.Held, r.Receivable); err != nil {
			return fmt.Errorf("divide the refund: %w", err)
		}
	}
	return place(ctx, tx, *r, ledger.Merchant)
}

// place sets aside what a refund holds. An account that is not there has nothing.
func place(ctx context.Context, tx pgx.Tx, r Refund, code string) error {
	if r.Held == 0 {
		return nil
	}
	_, err := ledger.Place(ctx, tx, ledger.Hold{TenantID: r.TenantID, Key: holdKey(r.OutRefundNo), Code: code, Currency: r.Currency, Amount: r.Held})
	if errors.Is(err, ledger.ErrNoAccount) {
		return ledger.ErrInsufficient
	}
	return err
}

// newRefund is a row to be made.
type newRefund struct {
	tenantID, number   string
	origin             Origin
	paymentID, eventID *int64
	accountID          int64
	transactionID      string
	refundID           string
	amount             int64
	currency, reason   string
	held               int64
	confirmFirst       bool
}

// alertAfter is how long a refund may be open before somebody is told, unknownAlertAfter how long it may be unknown.
const (
	alertAfter        = 24 * time.Hour
	unknownAlertAfter = time.Hour
)

// insert makes the row. Error: errTaken where the number is taken.
func (s *Service) insert(ctx context.Context, tx pgx.Tx, n newRefund) (Refund, error) {
	asks, err := s.accounts.AsksWithin(ctx, tx, n.accountID)
	if err != nil {
		return Refund{}, err
	}
	return insert(ctx, tx, n, asks, s.now(), s.restart)
}

func insert(ctx context.Context, tx pgx.Tx, n newRefund, asks bool, now time.Time, restart time.Duration) (Refund, error) {
	var drive *time.Time
	if asks {
		at := now.Add(restart)
		drive = &at
	}
	var id int64
	err := tx.QueryRow(ctx, insertSQL, n.tenantID, n.number, n.origin, n.paymentID, n.eventID, n.accountID, n.transactionID, n.refundID,
		n.amount, n.currency, n.reason, n.held, asks, n.confirmFirst, now, drive, now.Add(alertAfter)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, errTaken
	}
	if err != nil {
		return Refund{}, fmt.Errorf("write the refund down: %w", err)
	}
	return one(ctx, tx, "r.id = $1", id)
}

// Return gives the money back that an event brought to suspense: its number is derived from the event, so that whoever asks
// makes one refund. automatic says that no person asked: the channel has to confirm the payment first. What an earlier refund
// that failed definitely has left undone is tried under the next number. then runs last in the transaction.
// Errors: [payment.ErrEventNotFound], [ErrNotInSuspense], [ErrRefundedAlready], [ledger.ErrInsufficient].
func (s *Service) Return(ctx context.Context, tenantID string, eventID int64, reason string, automatic bool, then ...Then) (made Refund, created bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		made, created, err = s.giveBack(ctx, tx, tenantID, eventID, reason, automatic)
		return last(tx, made, created, err, then)
	})
	if err != nil {
		return Refund{}, false, fmt.Errorf("give back the money of event %d: %w", eventID, err)
	}
	if created {
		s.begun(ctx, made)
	}
	return made, created, nil
}

func (s *Service) giveBack(ctx context.Context, tx pgx.Tx, tenantID string, eventID int64, reason string, automatic bool) (Refund, bool, error) {
	m, err := lockSuspense(ctx, tx, tenantID, eventID)
	if errors.Is(err, ErrNotInSuspense) {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM channel_events WHERE tenant_id = $1 AND id = $2)", tenantID, eventID).Scan(&there); err != nil {
			return Refund{}, false, fmt.Errorf("look for the event: %w", err)
		}
		if !there {
			return Refund{}, false, payment.ErrEventNotFound
		}
	}
	if err != nil {
		return Refund{}, false, err
	}
	switch there, err := one(ctx, tx, "r.event_id = $1 AND r.origin = 'suspense' AND r.state <> 'FAILED' ORDER BY r.id DESC LIMIT 1", eventID); {
	case err == nil:
		return there, false, nil
	case !errors.Is(err, ErrNotFound):
		return Refund{}, false, err
	case m.left() <= 0:
		return Refund{}, false, ErrRefundedAlready
	}
	made, err := s.insert(ctx, tx, newRefund{
		tenantID: tenantID, number: suspenseNumber(m.accountID, m.eventKey, m.attempts), origin: FromSuspense, eventID: &eventID,
		accountID: m.accountID, transactionID: m.transactionID, amount: m.left(), currency: m.currency, reason: reason,
		held: m.left(), confirmFirst: automatic,
	})
	if err != nil {
		return Refund{}, false, err
	}
	if !automatic {
		if err := audit.Record(ctx, tx, tenantID, audit.SuspenseRefunded, audit.Event(eventID), reason); err != nil {
			return Refund{}, false, err
		}
	}
	return made, true, place(ctx, tx, made, ledger.Suspense)
}

// suspenseNumber is the out_refund_no of money in suspense: the same event, the same number; another one only after a refund
// of it failed for good.
func suspenseNumber(accountID int64, eventKey string, failed int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", accountID, eventKey))
	number := suspensePrefix + hex.EncodeToString(sum[:20])
	if failed > 0 {
		number += fmt.Sprintf("-%d", failed)
	}
	return number
}

// suspended is money that an event brought to suspense. Amounts are in minor units of currency.
type suspended struct {
	accountID      int64
	transactionID  string
	eventKey       string
	amount         int64
	currency       string
	open, returned int64 // of refunds that have not failed
	attempts       int   // refunds of it that were made here
}

func (m suspended) left() int64 { return m.amount - m.open - m.returned }

// lockSuspense reads the money that an event brought to suspense and keeps others from giving it back. Error:
// [ErrNotInSuspense].
func lockSuspense(ctx context.Context, tx pgx.Tx, tenantID string, eventID int64) (m suspended, err error) {
	if _, err := tx.Exec(ctx, "SELECT FROM channel_events WHERE id = $1 FOR UPDATE", eventID); err != nil {
		return m, fmt.Errorf("lock the event: %w", err)
	}
	err = tx.QueryRow(ctx, suspenseSQL, tenantID, eventID).Scan(&m.accountID, &m.transactionID, &m.eventKey, &m.amount, &m.currency, &m.open, &m.returned, &m.attempts)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, ErrNotInSuspense
	}
	if err != nil {
		return m, fmt.Errorf("read the money in suspense: %w", err)
	}
	return m, nil
}

// asChannelRefund is a refund as its channel is told of it.
func (s *Service) asChannelRefund(ctx context.Context, r Refund) (channel.Refund, error) {
	told := channel.Refund{
		OutRefundNo: r.OutRefundNo, TransactionID: r.TransactionID, OutTradeNo: r.OutTradeNo, Amount: r.Amount, Total: r.Amount,
		Currency: r.Currency, Reason: r.Reason, RefundID: r.RefundID,
	}
	var err error
	if r.PaymentID != nil {
		err = s.pool.QueryRow(ctx, "SELECT amount, channel_reference FROM payments WHERE id = $1", r.PaymentID).Scan(&told.Total, &told.Reference)
	} else {
		err = s.pool.QueryRow(ctx, "SELECT amount FROM channel_events WHERE id = $1", r.EventID).Scan(&told.Total)
	}
	if err != nil {
		return told, fmt.Errorf("read what refund %s is of: %w", r.OutRefundNo, err)
	}
	return told, nil
}
