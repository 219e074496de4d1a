// Package refund pays back what was received: a part of a payment or all of it, or money in suspense that no order waits for.
//
//   - [Service] takes requests, calls channels and asks them, and looks after what stopped moving.
//   - [Matter] judges and books what channels report about refunds, inside the one entry and the one book-keeping of
//     internal/payment.
//
// A refund's number and amount are committed before its channel hears of it, together with the amount reserved on the payment
// and held on the merchant's account. From then on the channel knows it by this one number: a call whose outcome is unknown is
// asked for, and made again only when the channel says that it has no such refund.
package refund

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

// State of a refund.
type State string

// The states. SUCCEEDED and FAILED are ends that the channel may still contradict: docs/refunds.md has the picture.
const (
	Pending   State = "PENDING"
	Unknown   State = "UNKNOWN" // the channel was called, or is stuck, and it is not known what became of it
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
)

// States lists all states of a refund.
func States() []State { return []State{Pending, Unknown, Succeeded, Failed} }

// Ended tells whether the flow of a refund has nothing left to do.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// Origin says who asked for a refund.
type Origin string

// The origins.
const (
	ByMerchant   Origin = "merchant"
	ByChannel    Origin = "channel"  // made in the channel's own console, and adopted
	FromSuspense Origin = "suspense" // money that no order waits for
)

// Refund is a refund as it stands. Amounts are in minor units of Currency.
type Refund struct {
	ID            int64      `db:"id"`
	TenantID      string     `db:"tenant_id"`
	OutRefundNo   string     `db:"out_refund_no"`
	Origin        Origin     `db:"origin"`
	PaymentID     *int64     `db:"payment_id"`
	EventID       *int64     `db:"event_id"` // of the money in suspense
	OutTradeNo    string     `db:"out_trade_no"`
	AccountID     int64      `db:"account_id"`
	Channel       string     `db:"channel"`
	Account       string     `db:"account"`
	TransactionID string     `db:"transaction_id"`
	RefundID      string     `db:"refund_id"` // the channel's number; empty until it is known
	Amount        int64      `db:"amount"`
	Currency      string     `db:"currency"`
	Reason        string     `db:"reason"`
	State         State      `db:"state"`
	Abnormal      bool       `db:"abnormal"`
	Failure       string     `db:"failure"`
	Awaited       int64      `db:"awaited"` // what receivers of a sharing are to give back first
	Held          int64      `db:"held"`
	Receivable    int64      `db:"receivable"`
	Excess        int64      `db:"excess"`
	Settled       int64      `db:"settled"`  // of what is or was owed: what is owed no more
	Shortage      int64      `db:"shortage"` // what its reversal could not take from the merchant
	Fee           *int64     `db:"fee"`
	Asks          bool       `db:"asks"`
	ConfirmFirst  bool       `db:"confirm_first"`
	Calls         int        `db:"calls"`
	ChannelState  string     `db:"channel_state"`
	AskedAt       *time.Time `db:"asked_at"`
	OccurredAt    *time.Time `db:"occurred_at"`
	JournalID     *int64     `db:"journal_id"`
	JournalKey    *string    `db:"journal_key"`
	ReversalKey   *string    `db:"reversal_key"`
	CreatedAt     time.Time  `db:"created_at"`
	StateSince    time.Time  `db:"state_since"`
	EndedAt       *time.Time `db:"ended_at"`
}

// Errors of this package; api maps each to a status once.
var (
	ErrNotFound = errors.New("no such refund")
	// ErrNumberReused says that another refund has this out_refund_no: another payment's, or of another amount.
	ErrNumberReused = errors.New("out_refund_no belongs to a refund of another payment or amount")
	// ErrNumberReserved says that out_refund_no begins as the numbers do that are made here.
	ErrNumberReserved = errors.New("out_refund_no begins with suspense- or channel-, as the numbers that are made here do")
	// ErrExceeds says that pending and done refunds would pass what was captured.
	ErrExceeds = errors.New("pending and done refunds would pass what was captured")
	// ErrNotPaid says that the payment has not been paid, so that there is nothing to refund.
	ErrNotPaid = errors.New("the payment is not paid")
	// ErrNotInSuspense says that an event brought no money to suspense.
	ErrNotInSuspense = errors.New("the event brought no money to suspense")
	// ErrRefundedAlready says that the money which an event brought to suspense goes back already.
	ErrRefundedAlready = errors.New("the event's money is refunded, or being refunded, already")
	// ErrEnded says that a refund has come to its end: there is nothing to try again.
	ErrEnded = errors.New("the refund has ended")
)

// Journal kinds of this package.
const (
	KindRefund   = "refund"
	KindReversal = "refund_reversal"
	KindFee      = "refund_fee"
)

// holdKey and journalKey name a refund's hold and its one journal; feeKey the journal of the fee that came back with it, and
// reversalKey the one that takes both back.
func holdKey(outRefundNo string) string     { return "refund:" + outRefundNo }
func journalKey(outRefundNo string) string  { return "refund:" + outRefundNo }
func feeKey(outRefundNo string) string      { return "refund:" + outRefundNo + ":fee" }
func reversalKey(outRefundNo string) string { return "refund:" + outRefundNo + ":reversed" }

//go:embed sql/refund.sql
var refundSQL string

func one(ctx context.Context, db payment.Querier, where string, args ...any) (Refund, error) {
	rows, err := db.Query(ctx, refundSQL+" WHERE "+where, args...)
	if err != nil {
		return Refund{}, fmt.Errorf("read a refund: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Refund])
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, ErrNotFound
	}
	if err != nil {
		return Refund{}, fmt.Errorf("read a refund: %w", err)
	}
	return r, nil
}

// Owed is what the merchant owes for it.
func (r Refund) Owed() int64 {
	switch {
	case r.ReversalKey != nil:
		return r.Shortage - r.Settled
	case r.State == Succeeded:
		return r.Receivable - r.Settled
	default:
		return 0
	}
}

// ref is what a flow of this refund is started with.
func (r Refund) ref() Ref {
	return Ref{RefundID: r.ID, TenantID: r.TenantID, OutRefundNo: r.OutRefundNo, OutTradeNo: r.OutTradeNo, Channel: r.Channel, Amount: r.Amount, Currency: r.Currency, State: r.State}
}

// refundKinds are the kinds of event that are about refunds.
func refundKinds() []channel.Kind {
	return []channel.Kind{channel.RefundSuccess, channel.RefundFailed, channel.RefundAbnormal, channel.RefundHint}
}
