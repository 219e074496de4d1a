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
)

// Books carries out what the entry decided. Locks are taken in one order everywhere: event, payment, stock by sku, accounts by id.
type Books struct {
	pool *pgxpool.Pool
	log  *zap.Logger
}

// NewBooks takes the engine's pool.
func NewBooks(pool *pgxpool.Pool, log *zap.Logger) *Books { return &Books{pool, log} }

// Applied says how an event ended and where it left the order.
type Applied struct {
	EventState   EventState
	Outcome      Outcome
	PaymentState State
}

// Apply books a RECEIVED event: the order's state, the journal with entries and balances, and the event's end, in one
// transaction. Called again, at once or years later, it answers what was recorded. Error: [ErrEventNotFound].
func (b *Books) Apply(ctx context.Context, eventID int64) (Applied, error) {
	result, err := b.apply(ctx, eventID, "")
	if why := unbookable(err); why != "" {
		// It will not pass by trying again, and must not be tried for ever: a person has to look at it.
		result, err = b.apply(ctx, eventID, why)
	}
	if err != nil {
		return Applied{}, fmt.Errorf("apply event %d: %w", eventID, err)
	}
	return result, nil
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
	var settled verdict
	err = database.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		var err error
		result, settled = Applied{}, verdict{}
		if ev, err = lockEvent(ctx, tx, "e.id = $1", eventID); err != nil {
			return err
		}
		known, err := lockOrder(ctx, tx, ev.TenantID, ev.OutTradeNo)
		if err != nil {
			return err
		}
		if known != nil {
			result.PaymentState = known.State
		}
		if ev.State != Received {
			result.EventState, result.Outcome = ev.State, deref(ev.Outcome)
			return nil
		}
		// Judged under lock, by the same rules as at the entry: what was true then may not be now.
		settled = judge(ev.AccountID, reportOf(ev), known)
		var journal *int64
		if settled.state == Received && why != "" {
			settled = park(Unbookable, "%s", why)
		}
		if settled.state == Received {
			if settled, journal, err = b.carryOut(ctx, tx, ev, known); err != nil {
				return err
			}
			result.PaymentState = known.State
		}
		result.EventState, result.Outcome = settled.state, settled.outcome
		return settle(ctx, tx, ev.ID, settled, journal)
	})
	if err == nil {
		b.tell(ev, settled)
	}
	return result, err
}

// carryOut does what a RECEIVED event asks for and leaves the order's new state in known.
func (b *Books) carryOut(ctx context.Context, tx pgx.Tx, ev Event, known *order) (verdict, *int64, error) {
	if ev.Kind == channel.PayClosed {
		// A payment that is reported and not booked yet wins over a closing that overtook it.
		var paid bool
		if err := tx.QueryRow(ctx, waitingPaymentSQL, ev.TenantID, ev.OutTradeNo).Scan(&paid); err != nil {
			return verdict{}, nil, fmt.Errorf("look for a payment that waits: %w", err)
		}
		if paid {
			return verdict{Ignored, Stale, "a payment is reported and about to be booked"}, nil, nil
		}
		if err := move(ctx, tx, known, Closed, closeByChannelSQL, known.ID); err != nil {
			return verdict{}, nil, err
		}
		if known.Items > 0 {
			if err := stock.Release(ctx, tx, ev.TenantID, reservationKey(ev.OutTradeNo)); err != nil {
				return verdict{}, nil, err
			}
		}
		return verdict{Done, ClosedOrder, "closed by the channel"}, nil, nil
	}
	code, kind := ledger.Merchant, KindCredit
	v := verdict{Done, Credited, ""}
	switch known.State {
	case Pending:
	case Closed:
		code, kind = ledger.Suspense, KindSuspense
		v = verdict{Done, LatePayment, "the order was closed: the money is in suspense"}
	default:
		code, kind = ledger.Suspense, KindSuspense
		v = verdict{Done, SecondPayment, "the order was paid by another transaction: the money is in suspense"}
	}
	if known.State == Pending && known.Items > 0 {
		// Goods leave for money that is booked here and now, and for no other.
		if there, err := booked(ctx, tx, ev); err != nil || there {
			return park(Conflict, "journal %s of this transaction is there already", creditKey(ev)), nil, err
		}
		if err := stock.Confirm(ctx, tx, ev.TenantID, reservationKey(ev.OutTradeNo), known.Items); err != nil {
			return verdict{}, nil, err
		}
	}
	journal, posted, err := b.receive(ctx, tx, ev, code, kind)
	if err != nil {
		return verdict{}, nil, err
	}
	if !posted {
		return park(Conflict, "journal %s of this transaction is there already", creditKey(ev)), &journal, nil
	}
	if known.State == Pending {
		err = move(ctx, tx, known, Paid, paySQL, known.ID, journal)
		if err == nil && known.WantsCode {
			err = issueCode(ctx, tx, ev.TenantID, known.ID)
		}
	}
	return v, &journal, err
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

func settle(ctx context.Context, tx pgx.Tx, eventID int64, v verdict, journal *int64) error {
	tag, err := tx.Exec(ctx, settleEventSQL, eventID, v.state, v.outcome, v.reason, journal, time.Now(), time.Now().Add(DefaultPlan.Parked))
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
	rows, err := tx.Query(ctx, "SELECT id, amount, currency, account_id, state, json_array_length(items) AS items, wants_code FROM payments WHERE tenant_id = $1 AND out_trade_no = $2 FOR UPDATE", tenantID, outTradeNo)
	if err != nil {
		return nil, fmt.Errorf("lock the order: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[order])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the order: %w", err)
	}
	return found, nil
}

func (b *Books) tell(ev Event, v verdict) {
	if v.state == "" {
		return // settled before
	}
	log := b.log.With(zap.String("tenant", ev.TenantID), zap.String("order", ev.OutTradeNo), zap.Int64("event", ev.ID), zap.String("outcome", string(v.outcome)))
	switch v.outcome {
	case SecondPayment, LatePayment:
		alert.Raise(log, alert.MoneyAside, "money came that no order waits for", zap.String("amount", money.Format(*ev.Amount, *ev.Currency)))
	case Conflict:
		alert.Raise(log, alert.Conflict, v.reason)
	default:
		if v.state == Parked {
			alert.Raise(log, alert.EventParked, "an authentic event is parked", zap.String("reason", v.reason))
			return
		}
		log.Info("event settled", zap.String("state", string(v.state)), zap.String("reason", v.reason))
	}
}

// Close closes an order that its channel says nobody has paid, nobody can pay any more. An order that is not PENDING, or
// whose payment is reported and about to be booked, stays as it is. Error: [ErrNotFound].
func (b *Books) Close(ctx context.Context, paymentID int64, reason string) error {
	err := database.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		var tenantID, outTradeNo string
		err := tx.QueryRow(ctx, closeAskedSQL, paymentID, reason).Scan(&tenantID, &outTradeNo)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return stock.Release(ctx, tx, tenantID, reservationKey(outTradeNo))
	})
	if err != nil {
		return fmt.Errorf("close payment %d: %w", paymentID, err)
	}
	return nil
}
