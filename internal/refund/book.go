package refund

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

// Book implements [payment.Matter].
func (m *Matter) Book(ctx context.Context, tx pgx.Tx, ev payment.Event) (payment.Verdict, error) {
	r, err := m.lockFor(ctx, tx, ev)
	if errors.Is(err, ErrNotFound) {
		return m.bookUnknown(ctx, tx, ev)
	}
	if err != nil {
		return payment.Verdict{}, err
	}
	v := judge(ev, r)
	if v.State != payment.Received {
		return v, nil
	}
	b := books{tx, m.now(), ev}
	if contradicts(ev.Kind, r.State) || ev.Kind == channel.RefundHint {
		unheard, err := unheard(ctx, tx, ev, r)
		if err != nil {
			return payment.Verdict{}, err
		}
		if v, settled := word(ev, r, unheard); settled {
			v.Matter = string(r.State)
			return v, nil
		}
	}
	switch {
	case ev.Kind == channel.RefundSuccess && r.State == Failed:
		return b.adopt(ctx, r)
	case ev.Kind == channel.RefundSuccess:
		return b.confirm(ctx, r)
	case ev.Kind == channel.RefundFailed && r.State == Succeeded:
		return b.reverse(ctx, r)
	case ev.Kind == channel.RefundFailed:
		return b.release(ctx, r, "the channel says that it failed")
	default:
		return b.abnormal(ctx, r)
	}
}

// contradicts tells whether an event says the opposite of a refund's end. Channels deliver in any order: the newer word counts.
func contradicts(k channel.Kind, s State) bool {
	return k == channel.RefundSuccess && s == Failed || k == channel.RefundFailed && s == Succeeded
}

// word decides what must not be booked on the event's own word: a hint, and what contradicts an end. An event that decides by
// itself is booked at once, also while the channel cannot be reached: what it says is newer than the end, or nobody but us has
// said that the refund failed. Where it does not, the channel is asked, if it can be. settled is false where the event shall
// be booked.
func word(ev payment.Event, r Refund, unheard bool) (v payment.Verdict, settled bool) {
	if ev.Kind != channel.RefundHint {
		older := ev.OccurredAt != nil && r.OccurredAt != nil && ev.OccurredAt.Before(*r.OccurredAt)
		switch {
		case older:
			return payment.Ignore(payment.Stale, "refund %s is %s by a later word of the channel", r.OutRefundNo, r.State), true
		case !r.Asks, unheard, newer(ev, r):
			return v, false
		}
	}
	if ev.AskedAt == nil {
		return payment.Verdict{State: payment.Received, Ask: true}, true
	}
	if ev.Kind == channel.RefundHint {
		return payment.Verdict{State: payment.Done, Outcome: payment.RefundAsked, Reason: "the channel was asked about refund " + r.OutRefundNo}, true
	}
	switch says := channel.RefundState(r.ChannelState); {
	case ev.Kind == channel.RefundSuccess && says == channel.RefundSucceeded, ev.Kind == channel.RefundFailed && says == channel.RefundRefused:
		return v, false
	case says == channel.RefundSucceeded, says == channel.RefundRefused:
		return payment.Ignore(payment.Stale, "asked again, the channel says that refund %s is %s", r.OutRefundNo, says), true
	default:
		return payment.Park(payment.Conflict, "refund %s is %s here; asked again, the channel says %s", r.OutRefundNo, r.State, says), true
	}
}

// askedSkew is how far the clocks of a channel and ours may be apart.
const askedSkew = time.Minute

// newer tells whether an event is certainly newer than a refund's end, by the channel's own time. An end that was learned by asking
// is as old as the question: what the channel tells as the time of such an answer may be that of the refund's beginning.
func newer(ev payment.Event, r Refund) bool {
	if ev.OccurredAt == nil {
		return false
	}
	told := r.OccurredAt != nil
	if told && !ev.OccurredAt.After(*r.OccurredAt) {
		return false
	}
	if r.AskedAt != nil && channel.RefundState(r.ChannelState) == endOf(r.State) {
		return ev.OccurredAt.After(r.AskedAt.Add(askedSkew))
	}
	return told
}

// endOf is a refund's end as a channel says it.
func endOf(s State) channel.RefundState {
	if s == Succeeded {
		return channel.RefundSucceeded
	}
	return channel.RefundRefused
}

// unheard tells whether a refund is FAILED though its channel never said that it failed: it refused to be called, and that is all
// that was known.
func unheard(ctx context.Context, tx pgx.Tx, ev payment.Event, r Refund) (bool, error) {
	if r.State != Failed || r.OccurredAt != nil || channel.RefundState(r.ChannelState) == channel.RefundRefused {
		return false, nil
	}
	key := strings.TrimSuffix(ev.Key, ":"+string(ev.Kind)) + ":" + string(channel.RefundFailed)
	var heard bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM channel_events WHERE account_id = $1 AND event_key = $2 AND state = 'DONE')", ev.AccountID, key).Scan(&heard); err != nil {
		return false, fmt.Errorf("look whether the channel said that refund %s failed: %w", r.OutRefundNo, err)
	}
	return !heard, nil
}

// bookUnknown adopts a refund that was made in the channel's own console, or has the channel asked about a hint of one.
func (m *Matter) bookUnknown(ctx context.Context, tx pgx.Tx, ev payment.Event) (payment.Verdict, error) {
	money, err := moneyOf(ctx, tx, ev)
	if err != nil {
		return payment.Verdict{}, err
	}
	v := judgeUnknown(ev, money)
	if v.State != payment.Received {
		return v, nil
	}
	if ev.Kind == channel.RefundHint {
		if ev.AskedAt == nil {
			v.Ask = true
			return v, nil
		}
		reason := "the channel was asked about the refunds of the transaction that are open"
		if ev.OutNo != "" {
			reason = "the channel was asked, and has no such refund that has ended"
		}
		return payment.Verdict{State: payment.Done, Outcome: payment.RefundAsked, Reason: reason}, nil
	}
	r, err := m.adopted(ctx, tx, ev, money)
	if err != nil {
		return payment.Verdict{}, err
	}
	return books{tx, m.now(), ev}.adopt(ctx, r)
}

// adopted makes the row of a refund that was made in the channel's console.
func (m *Matter) adopted(ctx context.Context, tx pgx.Tx, ev payment.Event, money received) (Refund, error) {
	asks, err := m.accounts.AsksWithin(ctx, tx, ev.AccountID)
	if err != nil {
		return Refund{}, err
	}
	n := newRefund{
		tenantID: ev.TenantID, origin: ByChannel, paymentID: money.paymentID, eventID: money.eventID, accountID: ev.AccountID,
		transactionID: ev.TransactionID, refundID: ev.Subject(), amount: *ev.Amount, currency: *ev.Currency, reason: "made at the channel",
	}
	for _, taken := range []bool{false, true} {
		n.number = adoptedNumber(ev, taken)
		r, err := insert(ctx, tx, n, asks, m.now(), restartAfter)
		if !errors.Is(err, errTaken) {
			return r, err
		}
		// The number is another account's: two channel accounts number on their own.
	}
	return Refund{}, fmt.Errorf("adopt refund %s: %w", ev.Subject(), errTaken)
}

// lockFor finds the refund that an event is about and keeps others from moving it: its payment first, then itself. Where it
// is of no refund of ours, what it refunds is locked, so that nobody makes the row meanwhile. Error: [ErrNotFound].
func (m *Matter) lockFor(ctx context.Context, tx pgx.Tx, ev payment.Event) (Refund, error) {
	r, err := find(ctx, tx, ev)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return r, err
	}
	known := err == nil
	paymentID, eventID := r.PaymentID, r.EventID
	if !known {
		money, err := moneyOf(ctx, tx, ev)
		if err != nil {
			return r, err
		}
		paymentID, eventID = money.paymentID, money.eventID
	}
	if err := lockMoney(ctx, tx, paymentID, eventID); err != nil {
		return r, err
	}
	// A new statement sees what was committed while this one waited.
	if r, err = find(ctx, tx, ev); err != nil {
		return r, err
	}
	return lock(ctx, tx, r.ID)
}

// lockMoney locks what a refund is of, the payment or the money in suspense that an event brought: before the refund, as everywhere.
func lockMoney(ctx context.Context, tx pgx.Tx, paymentID, eventID *int64) error {
	if paymentID != nil {
		if _, err := tx.Exec(ctx, "SELECT FROM payments WHERE id = $1 FOR UPDATE", *paymentID); err != nil {
			return fmt.Errorf("lock the payment: %w", err)
		}
	}
	if eventID != nil {
		if _, err := tx.Exec(ctx, "SELECT FROM channel_events WHERE id = $1 FOR UPDATE", *eventID); err != nil {
			return fmt.Errorf("lock the money in suspense: %w", err)
		}
	}
	return nil
}

func lock(ctx context.Context, tx pgx.Tx, id int64) (Refund, error) {
	if _, err := tx.Exec(ctx, "SELECT FROM refunds WHERE id = $1 FOR UPDATE", id); err != nil {
		return Refund{}, fmt.Errorf("lock the refund: %w", err)
	}
	return one(ctx, tx, "r.id = $1", id)
}

//go:embed sql/abnormal.sql
var abnormalSQL string

// abnormal records that a refund is stuck at the channel. It is no end: nothing is released.
func (b books) abnormal(ctx context.Context, r Refund) (payment.Verdict, error) {
	why := "the channel is stuck with it: a person must act in its console"
	if err := b.exec(ctx, abnormalSQL, r.ID, why, b.now, b.now.Add(alertAfter)); err != nil {
		return payment.Verdict{}, err
	}
	return payment.Verdict{
		State: payment.Done, Outcome: payment.RefundAbnormal, Reason: "refund " + r.OutRefundNo + ": " + why, Matter: string(Unknown), Alert: alert.RefundStuck,
	}, nil
}
