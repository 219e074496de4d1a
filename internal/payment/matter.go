package payment

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
)

// Matter is what events of other kinds than payments are about: a refund, a sharing. It has a row and a flow of its own. Its
// events come in by the same door as payments do, are judged by it instead of by the order, and are booked by it in the
// transaction that settles them: kept once, in conflict, replayed and driven again by the same rules.
type Matter interface {
	// Kinds lists the kinds of event that are about it.
	Kinds() []channel.Kind
	// Judge says what an event means for the matter as it stands now, with the flow that a RECEIVED one goes to. It writes
	// nothing and locks nothing: the same facts and the same rows give the same verdict. The event may not be stored yet; its
	// ID is 0 then.
	Judge(ctx context.Context, db Querier, ev Event) (Verdict, error)
	// Book carries out a RECEIVED event within the transaction that settles it. The event is locked; Book locks what it needs
	// after it, in the order of all: payment, matter, stock by sku, accounts by id. It judges again under these locks: what was
	// true at the entry may not be now.
	Book(ctx context.Context, tx pgx.Tx, ev Event) (Verdict, error)
	// Matched lists events that were parked because nothing of ours had their number (UNKNOWN_REFUND, UNKNOWN_SHARE, UNKNOWN_PAYMENT) and whose
	// row has come since. Whoever makes a row asks for its events after the commit ([Entry.RowCreated]); this finds what it missed.
	Matched(ctx context.Context, db Querier, limit int) ([]int64, error)
}

// Flow names the flow of a matter's row; the zero value is a flow of the event's own.
type Flow struct {
	Row    int64  // the row's id
	Number string // the merchant's number of it, of which the flow's id is made
}

// Querier is a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// matters finds the matter of a kind of event; payments have none. Fees are always among them.
type matters map[channel.Kind]Matter

func newMatters(list []Matter) matters {
	byKind := matters{}
	for _, m := range append([]Matter{fees{}}, list...) {
		for _, kind := range m.Kinds() {
			byKind[kind] = m
		}
	}
	return byKind
}

// each gives every matter once.
func (m matters) each() (list []Matter) {
	for _, matter := range m {
		seen := false
		for _, known := range list {
			seen = seen || known == matter
		}
		if !seen {
			list = append(list, matter)
		}
	}
	return list
}

// judge asks the matter of an event; ok is false for the kinds that are the order's own.
func (m matters) judge(ctx context.Context, db Querier, ev Event) (v Verdict, ok bool, err error) {
	matter, ok := m[ev.Kind]
	switch {
	case !ok:
		return Verdict{}, false, nil
	case ev.Mismatch != "":
		return Park(ContextMismatch, "%s", ev.Mismatch), true, nil
	}
	v, err = matter.Judge(ctx, db, ev)
	return v, true, err
}

// book lets the matter of an event carry it out; ok is false for the kinds that are the order's own.
func (m matters) book(ctx context.Context, tx pgx.Tx, ev Event) (v Verdict, ok bool, err error) {
	matter, ok := m[ev.Kind]
	switch {
	case !ok:
		return Verdict{}, false, nil
	case ev.Mismatch != "":
		return Park(ContextMismatch, "%s", ev.Mismatch), true, nil
	}
	v, err = matter.Book(ctx, tx, ev)
	return v, true, err
}

// waits tells whether an event is parked until what it is about is there.
func waits(o Outcome) bool {
	return o == UnknownOrder || o == UnknownRefund || o == UnknownShare || o == UnknownPayment
}

// judged is a verdict with what routes the event.
type judged struct {
	Verdict
	order State // of the order that a payment's event is about
}

// judge says what an event means, by its order or by its matter. r is what it says.
func (e *Entry) judge(ctx context.Context, db Querier, ev Event, r report) (judged, error) {
	if r.Foreign {
		return judged{Verdict: foreign()}, nil
	}
	if v, ok, err := e.matters.judge(ctx, db, ev); ok || err != nil {
		return judged{Verdict: v}, err
	}
	known, err := readOrder(ctx, db, ev.TenantID, ev.OutTradeNo, "")
	if err != nil {
		return judged{}, err
	}
	j := judged{Verdict: judge(ev.AccountID, r, known)}
	if known != nil {
		j.order = known.State
	}
	return j, nil
}
