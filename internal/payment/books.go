package payment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/stock"
)

// Journal kinds of this package.
const (
	KindCredit   = "payment_credit"
	KindSuspense = "payment_suspense"
	KindFee      = "payment_fee"
)

// Books carries out what the entry decided. Locks are taken in one order everywhere: event, payment, refund
// or sharing, stock by sku, accounts by id.
type Books struct {
	pool    *pgxpool.Pool
	log     *zap.Logger
	matters matters
}

// NewBooks takes the engine's pool, and what events of other kinds than payments are about.
func NewBooks(pool *pgxpool.Pool, log *zap.Logger, list ...Matter) *Books {
	return &Books{pool, log, newMatters(list)}
}

// Applied says how an event ended and where it left the order.
type Applied struct {
	EventState   EventState
	Outcome      Outcome
	PaymentState State
	// Matter is the state in which the event left another matter than a payment.
	Matter string
	// Ask names the channel that must be asked before the event can be booked: it is RECEIVED still.
	Ask string
}

// Apply books a RECEIVED event: the order's state, the journal with entries and balances, and the event's end, in one
// transaction. Called again, at once or years later, it answers what was recorded. Error: [ErrEventNotFound].
func (b *Books) Apply(ctx context.Context, eventID int64) (Applied, error) {
	result, credited, err := b.credit(ctx, eventID)
	if credited || err != nil {
		return result, err
	}
	result, err = b.apply(ctx, eventID, "")
	if why := unbookable(err); why != "" {
		// It will not pass by trying again, and must not be tried for ever: a person has to look at it.
		result, err = b.apply(ctx, eventID, why)
	}
	if err != nil {
		return Applied{}, fmt.Errorf("apply event %d: %w", eventID, err)
	}
	return result, nil
}

// credit books the common payment in one round trip. credited is false when nothing was done: what it is, or which rule it
// broke, is found step by step.
func (b *Books) credit(ctx context.Context, eventID int64) (result Applied, credited bool, err error) {
	ev := Event{ID: eventID}
	now := time.Now()
	err = database.InOneTrip(ctx, b.pool, func(q database.Querier) error {
		return q.QueryRow(ctx, creditSQL, eventID, Received, Pending, now, now.Add(DefaultPlan.Parked)).Scan(&ev.TenantID, &ev.OutTradeNo, nil)
	})
	var refused *pgconn.PgError
	switch {
	case err == nil:
		b.tell(ev, Verdict{State: Done, Outcome: Credited})
		return Applied{EventState: Done, Outcome: Credited, PaymentState: Paid}, true, nil
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &refused) && (refused.Code[:2] == "22" || refused.Code[:2] == "23"):
		return Applied{}, false, nil
	default:
		return Applied{}, false, fmt.Errorf("credit event %d: %w", eventID, err)
	}
}

// unbookable says what rule of the database an error broke; empty for an error that may pass.
func unbookable(err error) string {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, ledger.ErrInsufficient), errors.Is(err, ledger.ErrUnbalanced), errors.Is(err, ledger.ErrOutOfRange):
		return err.Error()
	case errors.As(err, &pg) && pg.Code[:2] == "23":
		return "it breaks the rule " + pg.ConstraintName
	}
	return ""
}

// apply books the event, or parks it when it is known to be unbookable.
func (b *Books) apply(ctx context.Context, eventID int64, why string) (result Applied, err error) {
	var ev Event
	var settled Verdict
	err = database.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		var err error
		result, settled = Applied{}, Verdict{}
		if ev, err = lockEvent(ctx, tx, "e.id = $1", eventID); err != nil {
			return err
		}
		result.EventState, result.Outcome = ev.State, deref(ev.Outcome)
		if b.matters[ev.Kind] != nil {
			return b.applyMatter(ctx, tx, ev, why, &result, &settled)
		}
		return b.applyPayment(ctx, tx, ev, why, &result, &settled)
	})
	if err == nil {
		b.tell(ev, settled)
	}
	return result, err
}

// applyPayment books an event that is about its order.
func (b *Books) applyPayment(ctx context.Context, tx pgx.Tx, ev Event, why string, result *Applied, settled *Verdict) error {
	known, err := lockOrder(ctx, tx, ev.TenantID, ev.OutTradeNo)
	if err != nil {
		return err
	}
	if known != nil {
		result.PaymentState = known.State
	}
	if ev.State != Received {
		return nil
	}
	// Judged under lock, by the same rules as at the entry: what was true then may not be now.
	*settled = judge(ev.AccountID, reportOf(ev), known)
	if settled.State == Received && why != "" {
		*settled = Park(Unbookable, "%s", why)
	}
	if settled.State == Received {
		if *settled, err = b.carryOut(ctx, tx, ev, known); err != nil {
			return err
		}
		result.PaymentState = known.State
	}
	result.EventState, result.Outcome = settled.State, settled.Outcome
	return settle(ctx, tx, ev.ID, *settled)
}

// applyMatter lets the event's matter book it.
func (b *Books) applyMatter(ctx context.Context, tx pgx.Tx, ev Event, why string, result *Applied, settled *Verdict) error {
	if ev.State != Received {
		v, _, err := b.matters.judge(ctx, tx, ev)
		result.Matter = v.Matter
		return err
	}
	v := Park(Unbookable, "%s", why)
	if why == "" {
		var err error
		if v, _, err = b.matters.book(ctx, tx, ev); err != nil {
			return err
		}
	}
	result.Matter = v.Matter
	if v.Ask {
		result.Ask = ev.Channel
		return nil
	}
	result.EventState, result.Outcome = v.State, v.Outcome
	*settled = v
	return settle(ctx, tx, ev.ID, v)
}

// carryOut does what a RECEIVED event asks for and leaves the order's new state in known.
func (b *Books) carryOut(ctx context.Context, tx pgx.Tx, ev Event, known *order) (Verdict, error) {
	if ev.Kind == channel.PayClosed {
		// A payment that is reported and not booked yet wins over a closing that overtook it.
		var paid bool
		if err := tx.QueryRow(ctx, waitingPaymentSQL, ev.TenantID, ev.OutTradeNo).Scan(&paid); err != nil {
			return Verdict{}, fmt.Errorf("look for a payment that waits: %w", err)
		}
		if paid {
			return Ignore(Stale, "a payment is reported and about to be booked"), nil
		}
		if err := move(ctx, tx, known, Closed, closeByChannelSQL, known.ID); err != nil {
			return Verdict{}, err
		}
		if known.Items > 0 {
			if err := stock.Release(ctx, tx, ev.TenantID, reservationKey(ev.OutTradeNo)); err != nil {
				return Verdict{}, err
			}
		}
		return Verdict{State: Done, Outcome: ClosedOrder, Reason: "closed by the channel"}, nil
	}
	code, kind := ledger.Merchant, KindCredit
	v := Verdict{State: Done, Outcome: Credited}
	switch known.State {
	case Pending:
	case Closed:
		code, kind = ledger.Suspense, KindSuspense
		v = Verdict{State: Done, Outcome: LatePayment, Reason: "the order was closed: the money is in suspense"}
	default:
		code, kind = ledger.Suspense, KindSuspense
		v = Verdict{State: Done, Outcome: SecondPayment, Reason: "the order was paid by another transaction: the money is in suspense"}
	}
	if known.State == Pending && known.Items > 0 {
		// Goods leave for money that is booked here and now, and for no other.
		if there, err := booked(ctx, tx, ev); err != nil || there {
			return Park(Conflict, "journal %s of this transaction is there already", creditKey(ev)), err
		}
		if err := stock.Confirm(ctx, tx, ev.TenantID, reservationKey(ev.OutTradeNo), known.Items); err != nil {
			return Verdict{}, err
		}
	}
	journal, posted, err := b.receive(ctx, tx, ev, code, kind)
	if err != nil {
		return Verdict{}, err
	}
	if !posted {
		v = Park(Conflict, "journal %s of this transaction is there already", creditKey(ev))
		v.Journal = &journal
		if code == ledger.Merchant {
			if err := postFee(ctx, tx, ev); err != nil {
				return Verdict{}, err
			}
		}
		return v, nil
	}
	v.Journal = &journal
	if code == ledger.Merchant {
		if err := postFee(ctx, tx, ev); err != nil {
			return Verdict{}, err
		}
	}
	if known.State == Pending {
		err = move(ctx, tx, known, Paid, paySQL, known.ID, journal)
		if err == nil && known.WantsCode {
			err = issueCode(ctx, tx, ev.TenantID, known.ID)
		}
	}
	return v, err
}

func booked(ctx context.Context, tx pgx.Tx, ev Event) (there bool, err error) {
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM journals WHERE tenant_id = $1 AND key = $2)", ev.TenantID, creditKey(ev)).Scan(&there)
	if err != nil {
		return false, fmt.Errorf("look for the transaction's journal: %w", err)
	}
	return there, nil
}

// issueCode issues an order's redemption code. Guard: one row per payment. 80 random bits: nobody guesses one.
func issueCode(ctx context.Context, tx pgx.Tx, tenantID string, paymentID int64) error {
	_, err := tx.Exec(ctx, "INSERT INTO redemption_codes (payment_id, tenant_id, code) VALUES ($1, $2, $3) ON CONFLICT (payment_id) DO NOTHING",
		paymentID, tenantID, rand.Text()[:16])
	if err != nil {
		return fmt.Errorf("issue the redemption code: %w", err)
	}
	return nil
}

// receive posts the received amount from the channel to one of the tenant's accounts. Its key allows one such journal per
// channel transaction, wherever the money goes.
func (b *Books) receive(ctx context.Context, tx pgx.Tx, ev Event, code, kind string) (journal int64, posted bool, err error) {
	return ledger.Post(ctx, tx, ledger.Journal{
		TenantID: ev.TenantID,
		Key:      creditKey(ev),
		Kind:     kind,
		Lines: []ledger.Line{
			{Code: ledger.ChannelCode(ev.Channel, ev.Account), Currency: *ev.Currency, Amount: -*ev.Amount, AllowNegative: true},
			{Code: code, Currency: *ev.Currency, Amount: *ev.Amount},
		},
	})
}

// postFee books the channel's fee where the channel tells it with the payment: the channel keeps it out of what it collected.
// Where it is told later, or by the bill alone, it is booked then, under the same key. One that exceeds the payment is nobody's
// fee and is left to the bill.
func postFee(ctx context.Context, tx pgx.Tx, ev Event) error {
	if ev.Fee == nil || *ev.Fee <= 0 || *ev.Fee > *ev.Amount {
		return nil
	}
	_, _, err := ledger.Post(ctx, tx, ledger.Journal{
		TenantID: ev.TenantID,
		Key:      FeeKey(ev.AccountID, ev.TransactionID),
		Kind:     KindFee,
		Lines: []ledger.Line{
			{Code: ledger.Merchant, Currency: *ev.Currency, Amount: -*ev.Fee},
			{Code: ledger.Fees, Currency: *ev.Currency, Amount: *ev.Fee, AllowNegative: true},
		},
	})
	return err
}

// FeeKey is the journal key of the fee that a channel took for one of its transactions, whoever tells of it.
func FeeKey(accountID int64, transactionID string) string {
	return "fee:" + strconv.FormatInt(accountID, 10) + ":" + transactionID
}

// creditKey is the journal key of the money that one channel transaction brought.
func creditKey(ev Event) string {
	return "received:" + strconv.FormatInt(ev.AccountID, 10) + ":" + ev.TransactionID
}

// move runs a guarded update under the order's lock, where anything but one row is a fault of ours.
func move(ctx context.Context, tx pgx.Tx, known *order, to State, update string, args ...any) error {
	tag, err := tx.Exec(ctx, update, args...)
	if err != nil {
		return fmt.Errorf("move the order to %s: %w", to, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("move the order from %s to %s: %d rows, though its row is locked", known.State, to, tag.RowsAffected())
	}
	known.State = to
	return nil
}

func settle(ctx context.Context, tx pgx.Tx, eventID int64, v Verdict) error {
	tag, err := tx.Exec(ctx, settleEventSQL, eventID, v.State, v.Outcome, v.Reason, v.Journal, time.Now(), time.Now().Add(DefaultPlan.Parked))
	if err != nil {
		return fmt.Errorf("settle the event: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return errors.New("settle the event: it is settled, though its row is locked")
	}
	return nil
}

// lockOrder reads an order and keeps others from moving it until the transaction ends; nil if there is none.
func lockOrder(ctx context.Context, tx pgx.Tx, tenantID, outTradeNo string) (*order, error) {
	return readOrder(ctx, tx, tenantID, outTradeNo, "FOR UPDATE")
}

func (b *Books) tell(ev Event, v Verdict) {
	if v.State == "" {
		return // settled before
	}
	log := b.log.With(zap.String("tenant", ev.TenantID), zap.String("order", ev.OutTradeNo), zap.Int64("event", ev.ID), zap.String("outcome", string(v.Outcome)))
	if v.Alert != "" {
		alert.Raise(log, v.Alert, v.Reason)
		return
	}
	switch v.Outcome {
	case SecondPayment, LatePayment:
		alert.Raise(log, alert.MoneyAside, "money came that no order waits for", zap.String("amount", money.Format(*ev.Amount, *ev.Currency)))
	case Conflict:
		alert.Raise(log, alert.Conflict, v.Reason)
	default:
		if v.State == Parked {
			alert.Raise(log, alert.EventParked, "an authentic event is parked", zap.String("reason", v.Reason))
			return
		}
		log.Info("event settled", zap.String("state", string(v.State)), zap.String("reason", v.Reason))
	}
}

// Close closes an order that its channel says nobody has paid, nobody can pay any more, and gives the order's state after it.
// prepayState is that of the order when the channel was asked. An order that is not PENDING, whose payment is reported and
// about to be booked, or whose announcement was answered since, stays as it is: PENDING means that the channel must be asked
// again. Error: [ErrNotFound].
func (b *Books) Close(ctx context.Context, paymentID int64, reason string, prepayState *string) (state State, err error) {
	err = database.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		var tenantID, outTradeNo string
		err := tx.QueryRow(ctx, closeAskedSQL, paymentID, reason, prepayState).Scan(&tenantID, &outTradeNo)
		if errors.Is(err, pgx.ErrNoRows) {
			err = tx.QueryRow(ctx, "SELECT state FROM payments WHERE id = $1", paymentID).Scan(&state)
			if errors.Is(err, pgx.ErrNoRows) {
				return ErrNotFound
			}
			return err
		}
		if err != nil {
			return err
		}
		state = Closed
		return stock.Release(ctx, tx, tenantID, reservationKey(outTradeNo))
	})
	if err != nil {
		return "", fmt.Errorf("close payment %d: %w", paymentID, err)
	}
	return state, nil
}
