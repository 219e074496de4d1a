package refund

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

var (
	//go:embed sql/matched.sql
	matchedSQL string
	//go:embed sql/money.sql
	moneySQL string
)

// Matter implements [payment.Matter] for refunds.
type Matter struct {
	accounts *tenant.Accounts
	now      func() time.Time
}

// NewMatter makes the matter; now is the clock of deadlines, nil the real one.
func NewMatter(accounts *tenant.Accounts, now func() time.Time) *Matter {
	if now == nil {
		now = time.Now
	}
	return &Matter{accounts, now}
}

// Kinds implements [payment.Matter].
func (*Matter) Kinds() []channel.Kind { return refundKinds() }

// Matched implements [payment.Matter].
func (*Matter) Matched(ctx context.Context, db payment.Querier, limit int) ([]int64, error) {
	rows, err := db.Query(ctx, matchedSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("find events whose refund or payment has come: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("find events whose refund or payment has come: %w", err)
	}
	return ids, nil
}

// Judge implements [payment.Matter].
func (*Matter) Judge(ctx context.Context, db payment.Querier, ev payment.Event) (payment.Verdict, error) {
	r, err := find(ctx, db, ev)
	if errors.Is(err, ErrNotFound) {
		m, err := moneyOf(ctx, db, ev)
		if err != nil {
			return payment.Verdict{}, err
		}
		return judgeUnknown(ev, m), nil
	}
	if err != nil {
		return payment.Verdict{}, err
	}
	return judge(ev, r), nil
}

// judge is pure: what an event means for a refund of ours.
func judge(ev payment.Event, r Refund) payment.Verdict {
	v := compare(ev, r)
	v.Matter = string(r.State)
	if v.State == payment.Received && !r.State.Ended() {
		v.Flow = payment.Flow{Row: r.ID, Number: r.OutRefundNo}
	}
	return v
}

func compare(ev payment.Event, r Refund) payment.Verdict {
	switch {
	case ev.TransactionID != "" && ev.TransactionID != r.TransactionID:
		return payment.Park(payment.ContextMismatch, "refund %s is of another transaction", r.OutRefundNo)
	case ev.Kind == channel.RefundHint:
		// Its amounts may be this refund's or the sum of all: nothing is compared.
		if r.State == Succeeded {
			return payment.Ignore(payment.Stale, "refund %s has succeeded", r.OutRefundNo)
		}
		return payment.Verdict{State: payment.Received}
	case r.RefundID != "" && ev.Subject() != r.RefundID:
		return payment.Park(payment.Conflict, "refund %s is known by another number of the channel", r.OutRefundNo)
	case ev.Currency != nil && *ev.Currency != r.Currency:
		return payment.Park(payment.CurrencyMismatch, "reported in %s, refund %s is in %s", *ev.Currency, r.OutRefundNo, r.Currency)
	case ev.Amount != nil && *ev.Amount != r.Amount:
		return payment.Park(payment.AmountMismatch, "reported %s, refund %s is of %s", money.Format(*ev.Amount, r.Currency), r.OutRefundNo, money.Format(r.Amount, r.Currency))
	}
	switch {
	case ev.Kind == channel.RefundSuccess && r.State == Succeeded, ev.Kind == channel.RefundFailed && r.State == Failed:
		return payment.Ignore(payment.Stale, "refund %s is %s", r.OutRefundNo, r.State)
	case ev.Kind == channel.RefundAbnormal && r.State.Ended():
		return payment.Ignore(payment.Stale, "refund %s is %s", r.OutRefundNo, r.State)
	case r.State == Failed && r.ReversalKey != nil:
		return payment.Park(payment.Conflict, "refund %s succeeded, failed, and is said to have succeeded again", r.OutRefundNo)
	}
	return payment.Verdict{State: payment.Received}
}

// judgeUnknown is pure: what an event means of which we have no refund. m is the money that its transaction brought.
func judgeUnknown(ev payment.Event, m received) payment.Verdict {
	switch {
	case m.foreign:
		return payment.Ignore(payment.Foreign, "its payment bears no number of ours: it is of others who use this account of the channel")
	case !m.known:
		return payment.Park(payment.UnknownRefund, "no refund of ours has this number, and no payment of ours this transaction, yet")
	case ev.Kind == channel.RefundHint && (ev.OutNo != "" || m.open > 0):
		return payment.Verdict{State: payment.Received} // the channel is asked for it, or for all that are open
	case ev.Kind == channel.RefundHint && m.ended > 0:
		return payment.Ignore(payment.Stale, "it names no refund, and those of its transaction have ended")
	case ev.Kind == channel.RefundSuccess && ev.Amount != nil:
		if ev.Currency == nil || *ev.Currency != m.currency {
			return payment.Park(payment.CurrencyMismatch, "the payment is in %s", m.currency)
		}
		return payment.Verdict{State: payment.Received} // made in the channel's console: it is adopted
	}
	return payment.Park(payment.UnknownRefund, "no refund of ours has this number, and it says too little to be taken for one made at the channel")
}

// find gives the refund that an event is about, by the channel's number of it or by ours. The account is part of both: two
// channel accounts number on their own. Error: [ErrNotFound].
func find(ctx context.Context, db payment.Querier, ev payment.Event) (Refund, error) {
	if ev.Kind != channel.RefundHint {
		r, err := one(ctx, db, "r.tenant_id = $1 AND r.account_id = $2 AND r.transaction_id = $3 AND r.refund_id = $4 AND r.refund_id <> ''",
			ev.TenantID, ev.AccountID, ev.TransactionID, ev.Subject())
		if !errors.Is(err, ErrNotFound) {
			return r, err
		}
	}
	if ev.OutNo == "" {
		return Refund{}, ErrNotFound
	}
	return one(ctx, db, "r.tenant_id = $1 AND r.account_id = $2 AND r.out_refund_no = $3", ev.TenantID, ev.AccountID, ev.OutNo)
}

// received is the money that a transaction brought: to a payment, or to suspense.
type received struct {
	known     bool
	paymentID *int64
	eventID   *int64 // of the money in suspense
	currency  string
	foreign   bool // it is a payment of others
	// How many refunds of it are open, and how many have ended.
	open, ended int
}

// moneyOf finds the money that an event's transaction brought.
func moneyOf(ctx context.Context, db payment.Querier, ev payment.Event) (m received, err error) {
	if ev.TransactionID == "" {
		return m, nil
	}
	err = db.QueryRow(ctx, moneySQL, ev.TenantID, ev.AccountID, ev.TransactionID).Scan(&m.paymentID, &m.eventID, &m.currency, &m.open, &m.ended)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return m, fmt.Errorf("look for the money of transaction %s: %w", ev.TransactionID, err)
	}
	if m.known = m.paymentID != nil || m.eventID != nil; m.known {
		return m, nil
	}
	m.foreign, err = payment.IsForeign(ctx, db, ev.AccountID, ev.Channel, ev.TransactionID)
	return m, err
}

var numberPattern = regexp.MustCompile(`^[A-Za-z0-9_.|*-]{1,64}$`)

// The beginnings of numbers that are made here. Nobody else may take one: a derived number could not be told from it.
const (
	suspensePrefix = "suspense-"
	channelPrefix  = "channel-"
)

func reserved(number string) bool {
	return strings.HasPrefix(number, suspensePrefix) || strings.HasPrefix(number, channelPrefix)
}

// adoptedNumber is our number of a refund that was made in the channel's console: the one it has there, or one that is
// derived from the channel's own where that can be none of ours.
func adoptedNumber(ev payment.Event, taken bool) string {
	if !taken && numberPattern.MatchString(ev.OutNo) && !reserved(ev.OutNo) {
		return ev.OutNo
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", ev.AccountID, ev.TransactionID, ev.Subject()))
	return channelPrefix + hex.EncodeToString(sum[:20])
}
