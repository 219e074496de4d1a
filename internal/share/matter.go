package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
)

// Matter is what events about sharings are about: it implements [payment.Matter]. One event tells of one leg. A result has no
// move of its own to lean on, as a payment has from PENDING to PAID: what holds is the unique key of the leg's journal and of
// the event, whatever the timing.
type Matter struct{ now func() time.Time }

// NewMatter makes it; now is the clock, nil the real one.
func NewMatter(now func() time.Time) *Matter {
	if now == nil {
		now = time.Now
	}
	return &Matter{now}
}

// Kinds implements [payment.Matter].
func (*Matter) Kinds() []channel.Kind { return []channel.Kind{channel.ShareResult} }

// Judge implements [payment.Matter].
func (m *Matter) Judge(ctx context.Context, db payment.Querier, ev payment.Event) (payment.Verdict, error) {
	sh, err := one(ctx, db, " WHERE s.tenant_id = $1 AND s.out_order_no = $2", ev.TenantID, ev.OutNo)
	if errors.Is(err, ErrNotFound) {
		return payment.Park(payment.UnknownShare, "no profit sharing %q yet", ev.OutNo), nil
	}
	if err != nil {
		return payment.Verdict{}, err
	}
	v, _ := judge(sh, ev)
	return v, nil
}

// judge is pure. The leg comes back where the event is to be booked.
func judge(sh Share, ev payment.Event) (payment.Verdict, Leg) {
	leg, named := sh.leg(ev.Receiver)
	switch {
	case sh.AccountID != ev.AccountID:
		return payment.Park(payment.ContextMismatch, "the payment came through another channel account"), leg
	case ev.TransactionID != "" && ev.TransactionID != sh.TransactionID:
		return payment.Park(payment.ContextMismatch, "it is a sharing of another transaction"), leg
	case !named || leg.State == LegEmpty:
		return payment.Park(payment.ContextMismatch, "the sharing pays no such receiver"), leg
	case ev.Currency != nil && *ev.Currency != sh.Currency:
		return payment.Park(payment.CurrencyMismatch, "reported in %s, the sharing is in %s", *ev.Currency, sh.Currency), leg
	case ev.Amount != nil && *ev.Amount != leg.Amount:
		return payment.Park(payment.AmountMismatch, "reported %s, the receiver's part is %s",
			money.Format(*ev.Amount, sh.Currency), money.Format(leg.Amount, sh.Currency)), leg
	}
	switch channel.LegState(ev.LegState) {
	case channel.LegSucceeded:
	case channel.LegClosed:
		if leg.State == LegSucceeded {
			return payment.Park(payment.Conflict, "reported as closed, and booked as paid by journal %s", *leg.JournalKey), leg
		}
	default:
		return payment.Ignore(payment.Stale, "the receiver's result is open"), leg
	}
	return payment.Verdict{State: payment.Received, Flow: payment.Flow{Row: sh.ID, Number: sh.OutOrderNo}}, leg
}

// Book implements [payment.Matter].
func (m *Matter) Book(ctx context.Context, tx pgx.Tx, ev payment.Event) (payment.Verdict, error) {
	sh, err := lockByNumber(ctx, tx, ev.TenantID, ev.OutNo)
	if errors.Is(err, ErrNotFound) {
		return payment.Park(payment.UnknownShare, "no profit sharing %q yet", ev.OutNo), nil
	}
	if err != nil {
		return payment.Verdict{}, err
	}
	v, leg := judge(sh, ev)
	if v.State != payment.Received {
		v.Matter = string(sh.State)
		return v, nil
	}
	if channel.LegState(ev.LegState) == channel.LegClosed {
		v = payment.Verdict{State: payment.Done, Outcome: payment.ShareClosed, Reason: "nothing was paid to the receiver"}
		err = m.closeLeg(ctx, tx, sh, leg)
	} else {
		v, err = m.pay(ctx, tx, sh, leg)
	}
	if err != nil {
		return payment.Verdict{}, err
	}
	state, err := m.follow(ctx, tx, sh)
	v.Matter = string(state)
	return v, err
}

// Matched implements [payment.Matter].
func (*Matter) Matched(ctx context.Context, db payment.Querier, limit int) ([]int64, error) {
	rows, err := db.Query(ctx, matchedSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("find events whose sharing has come: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("find events whose sharing has come: %w", err)
	}
	return ids, nil
}

// closeLeg gives back what was set aside for a receiver who gets nothing; a leg that is closed already stays as it is.
func (m *Matter) closeLeg(ctx context.Context, tx pgx.Tx, sh Share, leg Leg) error {
	if leg.State == LegClosed {
		return nil
	}
	if err := exactly(ctx, tx, "close the leg", closeLegSQL, leg.ID, "closed by the channel", m.now()); err != nil {
		return err
	}
	if err := exactly(ctx, tx, "give the leg's part back", releaseSQL, sh.PaymentID, leg.Amount); err != nil {
		return err
	}
	if err := ledger.ReleasePart(ctx, tx, sh.TenantID, sh.holdKey(), leg.Amount); err != nil {
		return err
	}
	return net(ctx, tx, sh.TenantID, sh.PaymentID, sh.Currency, leg.Amount, "a receiver of sharing "+sh.OutOrderNo+" got nothing", m.now())
}

// follow moves a sharing to where its legs are. It is locked.
func (m *Matter) follow(ctx context.Context, tx pgx.Tx, sh Share) (State, error) {
	now, err := one(ctx, tx, " WHERE s.id = $1", sh.ID)
	if err != nil {
		return "", err
	}
	to := stateOf(now.Legs)
	switch {
	case to == sh.State:
		return to, nil
	case to == Failed && sh.State == Refused:
		return Refused, nil // nobody was paid either way, and it can be taken up again
	case to == Processing:
		return to, exactly(ctx, tx, "move the sharing", knownSQL, sh.ID, sh.ShareID, m.now())
	}
	return to, exactly(ctx, tx, "end the sharing", endSQL, sh.ID, to, "", m.now(), sh.State)
}

// stateOf says where legs leave a sharing that the channel has.
func stateOf(legs []Leg) State {
	paid, closed := 0, 0
	for _, l := range legs {
		switch l.State {
		case LegPending:
			return Processing
		case LegSucceeded:
			paid++
		case LegClosed:
			closed++
		}
	}
	switch {
	case closed == 0:
		return Succeeded
	case paid == 0:
		return Failed
	default:
		return Partial
	}
}

// exactly runs a guarded update under the row's lock, where anything but one row is a fault of ours.
func exactly(ctx context.Context, tx pgx.Tx, what, sql string, args ...any) error {
	tag, err := tx.Exec(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("%s: %d rows, though its row is locked", what, tag.RowsAffected())
	}
	return nil
}
