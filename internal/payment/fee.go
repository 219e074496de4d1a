package payment

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
)

var (
	//go:embed sql/fee.sql
	feeSQL string
	//go:embed sql/fee_matched.sql
	feeMatchedSQL string
)

// fees is the [Matter] of fees that a channel tells apart from the payment. A fee is booked once per transaction, whoever tells
// of it, and moves no order: a payment that is known by callback and one that was asked for end in the same rows.
type fees struct{}

// Kinds implements [Matter].
func (fees) Kinds() []channel.Kind { return []channel.Kind{channel.PayFee, channel.PayFeeHint} }

// charged is what is known here of a transaction that a fee is of.
type charged struct {
	received bool   // its money is booked
	paid     bool   // to a payment, and not to suspense
	waits    bool   // its payment is reported, and about to be booked
	amount   int64  // of the payment
	currency string // of the payment
	journal  *int64 // of the fee, where it is booked
	fee      int64
	order    bool // the order that the event names is one of ours
}

func (fees) find(ctx context.Context, db Querier, ev Event) (c charged, err error) {
	err = db.QueryRow(ctx, feeSQL, ev.TenantID, creditKey(ev), FeeKey(ev.AccountID, ev.TransactionID), ev.AccountID,
		successKey(ev.Channel, ev.TransactionID), ev.OutTradeNo).
		Scan(&c.received, &c.paid, &c.waits, &c.amount, &c.currency, &c.journal, &c.fee, &c.order)
	if err != nil {
		return c, fmt.Errorf("look for the payment of a fee: %w", err)
	}
	return c, nil
}

// Judge implements [Matter].
func (f fees) Judge(ctx context.Context, db Querier, ev Event) (Verdict, error) {
	c, err := f.find(ctx, db, ev)
	if err != nil {
		return Verdict{}, err
	}
	return judgeFee(ev, c), nil
}

// judgeFee is pure: what an event about a fee means for the payment as it stands now.
func judgeFee(ev Event, c charged) Verdict {
	switch {
	case c.received && !c.paid:
		return Ignore(Stale, "the money of its transaction is in suspense, which bears no fee here")
	case ev.Kind == channel.PayFeeHint && c.journal != nil:
		return Ignore(Stale, "the fee of its transaction is booked")
	case ev.Kind == channel.PayFeeHint && (c.paid || c.waits || c.order):
		return Verdict{State: Received} // the channel is asked, and tells of the payment too
	case !c.paid && !c.waits && ev.OutTradeNo == "":
		return foreign()
	case !c.paid && !c.waits:
		return Park(UnknownPayment, "the payment of its transaction is not booked, yet")
	case !c.paid:
		return Verdict{State: Received}
	case *ev.Currency != c.currency:
		return Park(CurrencyMismatch, "a fee in %s, and the payment is in %s", *ev.Currency, c.currency)
	case *ev.Amount > c.amount:
		return Park(AmountMismatch, "a fee of %s, and the payment is of %s", money.Format(*ev.Amount, c.currency), money.Format(c.amount, c.currency))
	case c.journal != nil && *ev.Amount != c.fee:
		return Park(Conflict, "the fee of its transaction is booked as %s", money.Format(c.fee, c.currency))
	}
	return Verdict{State: Received}
}

// foreign is the verdict on what bears no number of ours. All that is announced here bears one: it is somebody else's.
func foreign() Verdict {
	return Ignore(Foreign, "it bears no number of ours: it was made by others who use this account of the channel")
}

// successKey is the key of the event that says that a transaction succeeded.
func successKey(channelName, transactionID string) string {
	return channel.Event{Kind: channel.PaySuccess, Subject: transactionID}.Key(channelName, nil)
}

// IsForeign tells whether the payment of a transaction is known as one of others who use the same account of the channel.
func IsForeign(ctx context.Context, db Querier, accountID int64, channelName, transactionID string) (is bool, err error) {
	err = db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM channel_events WHERE account_id = $1 AND event_key = $2 AND outcome = $3)",
		accountID, successKey(channelName, transactionID), Foreign).Scan(&is)
	if err != nil {
		return false, fmt.Errorf("look for the payment of transaction %s: %w", transactionID, err)
	}
	return is, nil
}

// errNotBooked says that a fee has overtaken its payment, which is about to be booked: it is tried again.
var errNotBooked = errors.New("the payment of this fee is about to be booked")

// Book implements [Matter].
func (f fees) Book(ctx context.Context, tx pgx.Tx, ev Event) (Verdict, error) {
	c, err := f.find(ctx, tx, ev)
	if err != nil {
		return Verdict{}, err
	}
	if ev.Kind == channel.PayFeeHint && ev.AskedAt != nil {
		return Verdict{State: Done, Outcome: FeeAsked, Reason: "the channel was asked about transaction " + ev.TransactionID}, nil
	}
	v := judgeFee(ev, c)
	switch {
	case v.State != Received:
		return v, nil
	case ev.Kind == channel.PayFeeHint:
		v.Ask = true
		return v, nil
	case !c.paid:
		return Verdict{}, errNotBooked
	}
	journal, err := takeFee(ctx, tx, ev, c)
	return Verdict{State: Done, Outcome: FeeBooked, Reason: "the fee of transaction " + ev.TransactionID, Journal: &journal}, err
}

// takeFee books the fee. The channel has kept it already: what the merchant has spent meanwhile is a receivable, never a
// balance below zero. Guard: the journal's key.
func takeFee(ctx context.Context, tx pgx.Tx, ev Event, c charged) (journal int64, err error) {
	if c.journal != nil {
		return *c.journal, nil
	}
	merchant := ledger.Line{Code: ledger.Merchant, Currency: c.currency}
	owed := ledger.Line{Code: ledger.Receivable, Currency: c.currency, AllowNegative: true}
	kept := ledger.Line{Code: ledger.Fees, Currency: c.currency, Amount: *ev.Amount, AllowNegative: true}
	available, err := ledger.Lock(ctx, tx, ev.TenantID, merchant, owed, kept)
	if err != nil {
		return 0, err
	}
	merchant.Amount = -min(*ev.Amount, max(0, available[0]))
	owed.Amount = -*ev.Amount - merchant.Amount
	journal, _, err = ledger.Post(ctx, tx, ledger.Journal{
		TenantID: ev.TenantID, Key: FeeKey(ev.AccountID, ev.TransactionID), Kind: KindFee, Lines: []ledger.Line{merchant, owed, kept},
	})
	return journal, err
}

// Matched implements [Matter].
func (fees) Matched(ctx context.Context, db Querier, limit int) ([]int64, error) {
	rows, err := db.Query(ctx, feeMatchedSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("find fees whose payment has come: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("find fees whose payment has come: %w", err)
	}
	return ids, nil
}
