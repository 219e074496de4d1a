package share

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/receivable"
)

// pay books what a receiver got, once: the journal's key is the leg's.
func (m *Matter) pay(ctx context.Context, tx pgx.Tx, sh Share, leg Leg) (payment.Verdict, error) {
	done := payment.Verdict{State: payment.Done, Outcome: payment.Shared, Reason: "the receiver was paid"}
	switch leg.State {
	case LegSucceeded:
		return done, nil // booked before, by another report of the same fact
	case LegClosed:
		return m.payAfterAll(ctx, tx, sh, leg)
	}
	journal, err := first(ledger.Capture(ctx, tx, sh.holdKey(), leg.Amount, sh.paid(leg)))
	if err != nil {
		return payment.Verdict{}, err
	}
	done.Journal = &journal
	if err := exactly(ctx, tx, "mark the leg as paid", payLegSQL, leg.ID, journal, m.now(), leg.State, 0, 0); err != nil {
		return payment.Verdict{}, err
	}
	if err := exactly(ctx, tx, "take the leg from what is set aside", paidSQL, sh.PaymentID, leg.Amount); err != nil {
		return payment.Verdict{}, err
	}
	return done, m.takeBackLate(ctx, tx, sh, leg)
}

// payAfterAll books a leg that was closed, or refused with all others, and was paid all the same: the money is gone, and nothing
// is set aside for it. As far as the payment and the merchant's account reach it is taken from there; the rest is a receivable,
// never a balance below zero.
func (m *Matter) payAfterAll(ctx context.Context, tx pgx.Tx, sh Share, leg Leg) (payment.Verdict, error) {
	done := payment.Verdict{State: payment.Done, Outcome: payment.Shared, Reason: "the receiver was paid, though its part was taken for closed"}
	excess, err := excessOf(ctx, tx, sh, leg)
	if err != nil {
		return payment.Verdict{}, err
	}
	journal := sh.paid(leg)
	bears := ledger.Line{Code: ledger.Merchant, Currency: sh.Currency}
	owes := ledger.Line{Code: ledger.Receivable, Currency: sh.Currency, AllowNegative: true}
	available, err := ledger.Lock(ctx, tx, sh.TenantID, append([]ledger.Line{bears, owes}, journal.Lines...)...)
	if err != nil {
		return payment.Verdict{}, err
	}
	bears.Amount = -min(leg.Amount-excess, max(0, available[0]))
	owes.Amount = -leg.Amount - bears.Amount
	journal.Lines = append(journal.Lines, bears, owes)
	id, err := first(ledger.Post(ctx, tx, journal))
	if err != nil {
		return payment.Verdict{}, err
	}
	done.Journal = &id
	if err := exactly(ctx, tx, "mark the leg as paid", payLegSQL, leg.ID, id, m.now(), leg.State, -owes.Amount, excess); err != nil {
		return payment.Verdict{}, err
	}
	if err := exactly(ctx, tx, "count the leg as shared", paidAfterAllSQL, sh.PaymentID, leg.Amount, excess); err != nil {
		return payment.Verdict{}, err
	}
	if owes.Amount < 0 {
		done.Alert = alert.ReceivableBooked
		done.Reason += fmt.Sprintf(": %s of it is a receivable, %s beyond the payment", money.Format(-owes.Amount, sh.Currency), money.Format(excess, sh.Currency))
	}
	return done, m.takeBackLate(ctx, tx, sh, leg)
}

// excessOf says what of a leg that is paid after all is beyond the payment. What refunds that went out before take back of it is
// not: the receiver owes that.
func excessOf(ctx context.Context, tx pgx.Tx, sh Share, leg Leg) (int64, error) {
	var left int64
	if err := tx.QueryRow(ctx, leftSQL, sh.PaymentID).Scan(&left); err != nil {
		return 0, fmt.Errorf("read what is left of the payment: %w", err)
	}
	shared, err := many(ctx, tx, " WHERE s.payment_id = $1 ORDER BY s.id", sh.PaymentID)
	if err != nil {
		return 0, err
	}
	amount, undone, err := undoneOf(ctx, tx, sh.PaymentID)
	if err != nil {
		return 0, err
	}
	for i := range shared {
		for j := range shared[i].Legs {
			if l := &shared[i].Legs[j]; l.ID == leg.ID {
				l.State = LegSucceeded
			}
		}
	}
	for _, d := range dueOf(shared, amount, undone) {
		if d.leg.ID == leg.ID {
			left += d.amount
		}
	}
	return max(0, leg.Amount-max(0, left)), nil
}

// takeBackLate lets the receiver of a leg owe its part of refunds that went out before it was known that it was paid.
func (m *Matter) takeBackLate(ctx context.Context, tx pgx.Tx, sh Share, leg Leg) error {
	return takeBackLate(ctx, tx, sh.TenantID, sh.PaymentID, m.now(), func(l Leg) bool { return l.ID == leg.ID })
}

// paid is the journal of a leg, as far as its receiver.
func (s Share) paid(leg Leg) ledger.Journal {
	return ledger.Journal{
		TenantID: s.TenantID, Key: s.journalKey(leg), Kind: KindShare,
		Lines: []ledger.Line{{Code: ReceiverCode(leg.Account), Currency: s.Currency, Amount: leg.Amount}},
	}
}

// first takes a posting that must be the first of its key: its row says so, under its lock.
func first(id int64, posted bool, err error) (int64, error) {
	if err == nil && !posted {
		err = fmt.Errorf("journal %d is there, though its leg was not paid", id)
	}
	return id, err
}

// net sets what the merchant owes for a payment off against what has just become free of it.
func net(ctx context.Context, tx pgx.Tx, tenantID string, paymentID int64, currency string, freed int64, why string, now time.Time) error {
	_, err := receivable.Net(ctx, tx, receivable.Free{
		TenantID: tenantID, PaymentID: &paymentID, Code: ledger.Merchant, Currency: currency, Amount: freed, Why: why, Now: now,
	})
	return err
}
