package payment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
)

// Driver hands an event that was stored as RECEIVED to the flow that books it.
type Driver interface {
	Deliver(ctx context.Context, d Delivery) error
}

// Delivery names an event and where it belongs.
type Delivery struct {
	EventID    int64        `db:"id"`
	EventKey   string       `db:"event_key"`
	AccountID  int64        `db:"account_id"`
	TenantID   string       `db:"tenant_id"`
	Channel    string       `db:"channel"`
	Kind       channel.Kind `db:"kind"`
	OutTradeNo string       `db:"out_trade_no"`
	Amount     *int64       `db:"amount"`
	Currency   *string      `db:"currency"`
	// Drives is how often the re-drive has delivered it.
	Drives int `db:"drives"`
	// OrderState routes: while PENDING the payment's own flow books the event, later a flow of the event's own.
	OrderState State `db:"order_state"`
	// Flow routes the events of other matters than payments; the zero value is a flow of the event's own.
	Flow Flow `db:"-"`
	// Resume says that the row was read as unsettled after its flow should have ended: a flow of that id that is
	// closed, whatever closed it, may run again.
	Resume bool `db:"-"`
	// Alone sends the event to a flow of its own whatever the order's state: the order's flow does not get it booked.
	Alone bool `db:"-"`
}

// Plan says how long an event may rest before somebody looks after it.
type Plan struct {
	// Signal is how long a callback waits for the engine; what it does not take, the re-drive delivers.
	Signal time.Duration
	// Resume is the age at which a duplicate of an unfinished event delivers it again.
	Resume time.Duration
	// Retry is when the re-drive takes an event that the engine did not take.
	Retry time.Duration
	// Received is the deadline of RECEIVED, Parked that of PARKED.
	Received, Parked time.Duration
}

// DefaultPlan is the product's plan.
var DefaultPlan = Plan{
	Signal:   500 * time.Millisecond,
	Resume:   5 * time.Second,
	Retry:    5 * time.Second,
	Received: 60 * time.Second,
	Parked:   24 * time.Hour,
}

// Entry is the one door for what channels report. Correctness rests on the unique index over (account, event key) and on
// conditional updates; the look-up before them only saves work.
type Entry struct {
	pool     *pgxpool.Pool
	accounts *tenant.Accounts
	driver   Driver
	log      *zap.Logger
	plan     Plan
	now      func() time.Time
	matters  matters
	done     cache.Cache // nil: none
	hands    chan struct{}
}

// NewEntry takes the engine's pool. now is the clock of deadlines; nil is the real one. The list is what events of other kinds
// than payments are about.
func NewEntry(pool *pgxpool.Pool, accounts *tenant.Accounts, driver Driver, log *zap.Logger, plan Plan, now func() time.Time, list ...Matter) *Entry {
	if now == nil {
		now = time.Now
	}
	return &Entry{pool: pool, accounts: accounts, driver: driver, log: log, plan: plan, now: now, matters: newMatters(list), hands: make(chan struct{}, handsAtOnce)}
}

// Reported says what the entry made of one event.
type Reported struct {
	EventID   int64
	Key       string
	State     EventState
	Outcome   Outcome
	Duplicate bool
	// These are for what follows the commit.
	reason          string
	delivery        *Delivery
	channel, tenant string
}

// Report takes an authentic body that was received at a time. When it returns nil every event of the body is stored
// durably and may be acknowledged; handing them on is tried, and made up for by the re-drive where it fails.
func (e *Entry) Report(ctx context.Context, acct tenant.Account, body []byte, at time.Time) ([]Reported, error) {
	return e.report(ctx, acct, body, at, false, e.deliver)
}

// Answered is [Entry.Report] for the body of an answer that a flow asked its channel for: the flow books the events itself,
// by their ids, so that they are not handed on. Should it die before, the re-drive hands them on.
func (e *Entry) Answered(ctx context.Context, acct tenant.Account, body []byte, at time.Time) ([]Reported, error) {
	return e.report(ctx, acct, body, at, false, func(context.Context, []Delivery) int { return 0 })
}

// report stores all events of a body, or none. asked says that an operator wants it judged again, rejected or not.
func (e *Entry) report(ctx context.Context, acct tenant.Account, body []byte, at time.Time, asked bool, handOn func(context.Context, []Delivery) int) ([]Reported, error) {
	sum := sha256.Sum256(body)
	if !asked {
		if results, ok := e.remembered(ctx, acct, sum[:]); ok {
			e.follow(acct, results)
			return results, nil
		}
	}
	list := reports(acct, body)
	results := make([]Reported, len(list))
	var fresh []int
	for i, r := range list {
		known, ok, err := e.lookUp(ctx, acct, r, sum[:])
		if err != nil {
			return nil, fmt.Errorf("look up event %s: %w", r.key, err)
		}
		if results[i] = known; !ok || asked {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) == 0 {
		e.remember(ctx, acct, sum[:], results)
	}
	if len(list) == 1 && len(fresh) == 1 && results[0].EventID == 0 {
		result, stored, err := e.storeNew(ctx, acct, list[0], sum[:], body, at)
		if err != nil {
			return nil, fmt.Errorf("store event %s: %w", list[0].key, err)
		}
		if stored {
			results[0], fresh = result, nil
		}
	}
	if len(fresh) > 0 {
		err := database.InTx(ctx, e.pool, func(tx pgx.Tx) error {
			for _, i := range fresh {
				receipt, err := putReceipt(ctx, tx, acct, list[i].key, sum[:], body, at)
				if err != nil {
					return err
				}
				if results[i], err = e.place(ctx, tx, acct, list[i], receipt, at, asked); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("store %d events: %w", len(fresh), err)
		}
	}
	for i, result := range results {
		if waits(result.Outcome) && !result.Duplicate {
			// What it is about may have been committed since this transaction looked; who creates an order or another row looks
			// for events after its own commit, so the two cannot miss each other. The event is stored: an error here is the
			// re-drive's.
			if again, changed, err := e.rejudge(ctx, result.EventID); err == nil && changed {
				results[i] = again
			}
		}
	}
	handOn(ctx, e.follow(acct, results))
	return results, nil
}

// reports reads a body; one that cannot be read is a report too, and is kept.
func reports(acct tenant.Account, body []byte) []report {
	events, err := channel.Read(acct.Account, body)
	if err != nil {
		return []report{{key: channel.RawKey(body), Event: channel.Event{Kind: channel.Unreadable, Note: err.Error()}}}
	}
	var list []report
	for _, ev := range events {
		list = append(list, report{ev.Key(acct.Channel.Name(), body), ev})
	}
	// Rows are locked in the order of their keys, so that two bodies of the same events wait for each other.
	slices.SortFunc(list, func(a, b report) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(list, func(a, b report) bool { return a.key == b.key && a.says(eventOf(b)) })
}

// lookUp is the first layer: a report whose every byte is known needs no transaction, unless its event is RECEIVED and has
// rested long enough to be delivered again.
func (e *Entry) lookUp(ctx context.Context, acct tenant.Account, r report, sum []byte) (Reported, bool, error) {
	var known Event
	var outcome Outcome
	var amount int64
	var currency string
	var kept bool
	err := e.pool.QueryRow(ctx, lookUpSQL, acct.ID, r.key, sum).Scan(&known.ID, &known.State, &outcome, &known.NextDriveAt, &known.Kind,
		&known.TransactionID, &known.OutTradeNo, &amount, &currency, &known.Mismatch, &known.OutNo, &known.Receiver, &known.LegState, &kept)
	if errors.Is(err, pgx.ErrNoRows) {
		return Reported{}, false, nil
	}
	if err != nil {
		return Reported{}, false, err
	}
	known.Key, known.Outcome, known.Amount, known.Currency = r.key, orNil(outcome), orNil(amount), orNil(currency)
	rested := known.State == Received && !known.NextDriveAt.After(e.resumable())
	return duplicateOf(known), kept && r.says(known) && !rested, nil
}

func duplicateOf(e Event) Reported {
	return Reported{EventID: e.ID, Key: e.Key, State: e.State, Outcome: deref(e.Outcome), Duplicate: true}
}

// storeNew stores a new event with its receipt in one round trip; stored is false where its key is taken, or its body kept, by
// now. It reads what it judges by without a lock, as [Entry.place] does: the event is judged again when it is booked, and what
// waits for something at the end of the report.
func (e *Entry) storeNew(ctx context.Context, acct tenant.Account, r report, sum, body []byte, at time.Time) (result Reported, stored bool, err error) {
	ev := eventAt(acct, r)
	v, err := e.judge(ctx, e.pool, ev, r)
	if err != nil {
		return Reported{}, false, err
	}
	err = database.InOneTrip(ctx, e.pool, func(q database.Querier) (err error) {
		args := append(e.eventArgs(acct, r, r.key, v.Verdict, nil, sum, at), body)
		result, stored, err = inserted(q.QueryRow(ctx, storeEventSQL, args...), r.key, v.Verdict)
		return err
	})
	return routed(result, ev, v), stored, err
}

func putReceipt(ctx context.Context, tx pgx.Tx, acct tenant.Account, key string, sum, body []byte, at time.Time) (id int64, err error) {
	err = tx.QueryRow(ctx, insertReceiptSQL, acct.TenantID, acct.ID, key, sum, body, at).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = tx.QueryRow(ctx, "SELECT id FROM channel_receipts WHERE account_id = $1 AND event_key = $2 AND body_sha256 = $3",
			acct.ID, key, sum).Scan(&id)
	}
	if err != nil {
		return 0, fmt.Errorf("keep the receipt: %w", err)
	}
	return id, nil
}

// place inserts the event with its verdict, or finds the one that is there and decides between the two. What an operator has
// rejected is judged again only when an operator asks.
func (e *Entry) place(ctx context.Context, tx pgx.Tx, acct tenant.Account, r report, receipt int64, at time.Time, asked bool) (Reported, error) {
	ev := eventAt(acct, r)
	v, err := e.judge(ctx, tx, ev, r)
	if err != nil {
		return Reported{}, err
	}
	result, inserted, err := e.insert(ctx, tx, acct, r, r.key, v.Verdict, nil, receipt, at)
	if err != nil {
		return Reported{}, err
	}
	if inserted {
		return routed(result, ev, v), nil
	}
	there, err := lockEvent(ctx, tx, "e.account_id = $1 AND e.event_key = $2", acct.ID, r.key)
	if err != nil {
		return Reported{}, err
	}
	accepted := there.State == Done || there.State == Received
	rejected := deref(there.Outcome) == Rejected
	switch {
	case r.says(there) && there.State != Parked && !(rejected && asked):
		result = duplicateOf(there)
		if there.State == Received {
			result.delivery, err = e.claimResume(ctx, tx, there, v)
		}
		return result, err
	case accepted:
		v := Park(Conflict, "reported before: %s; now: %s", reportOf(there).describe(), r.describe())
		result, inserted, err := e.insert(ctx, tx, acct, r, r.conflictKey(), v, &there.ID, receipt, at)
		result.Duplicate = !inserted
		return result, err
	case r.says(there) && v.Outcome == deref(there.Outcome):
		return duplicateOf(there), nil
	default:
		result, err := e.update(ctx, tx, there.ID, r, v.Verdict, receipt)
		return routed(result, ev, v), err
	}
}

func (e *Entry) insert(ctx context.Context, tx pgx.Tx, acct tenant.Account, r report, key string, v Verdict, conflictsWith *int64, receipt int64, at time.Time) (Reported, bool, error) {
	return inserted(tx.QueryRow(ctx, insertEventSQL, e.eventArgs(acct, r, key, v, conflictsWith, receipt, at)...), key, v)
}

// eventArgs are the parameters of an insert; receipt is the receipt's id, or the hash that it is made of.
func (e *Entry) eventArgs(acct tenant.Account, r report, key string, v Verdict, conflictsWith *int64, receipt any, at time.Time) []any {
	return []any{acct.TenantID, acct.ID, key, receipt, r.Kind, r.TransactionID, r.OutTradeNo,
		orNil(r.Amount), orNil(r.Currency), orNil(r.OccurredAt), v.State, orNil(v.Outcome), v.Reason, conflictsWith,
		at, e.deadline(v.State), r.Mismatch, orNil(r.PayerAmount), r.Fee, r.OutNo, r.Receiver, r.LegState}
}

func inserted(row pgx.Row, key string, v Verdict) (Reported, bool, error) {
	result := Reported{Key: key, State: v.State, Outcome: v.Outcome, reason: v.Reason}
	err := row.Scan(&result.EventID)
	if errors.Is(err, pgx.ErrNoRows) {
		return result, false, nil
	}
	if err != nil {
		return Reported{}, false, fmt.Errorf("insert the event: %w", err)
	}
	return result, true, nil
}

// update gives an unsettled event the facts and the verdict of a newer report.
func (e *Entry) update(ctx context.Context, tx pgx.Tx, id int64, r report, v Verdict, receipt int64) (Reported, error) {
	now := e.now()
	tag, err := tx.Exec(ctx, rejudgeEventSQL, id, receipt, r.Kind, r.TransactionID, r.OutTradeNo,
		orNil(r.Amount), orNil(r.Currency), orNil(r.OccurredAt), v.State, orNil(v.Outcome), v.Reason, e.deadline(v.State), now, r.Mismatch,
		orNil(r.PayerAmount), r.Fee, r.OutNo, r.Receiver, r.LegState)
	if err != nil {
		return Reported{}, fmt.Errorf("judge the event again: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return Reported{}, fmt.Errorf("judge event %d again: it is settled, though its row is locked", id)
	}
	return Reported{EventID: id, Key: r.key, State: v.State, Outcome: v.Outcome, reason: v.Reason}, nil
}

func (e *Entry) deadline(s EventState) time.Time {
	switch s {
	case Received:
		return e.now().Add(e.plan.Received)
	case Parked:
		return e.now().Add(e.plan.Parked)
	default:
		return e.now()
	}
}

// routed adds the delivery of a RECEIVED event.
func routed(result Reported, ev Event, v judged) Reported {
	if result.State == Received {
		ev.ID = result.EventID
		result.delivery = deliveryOf(ev, v)
	}
	return result
}

func deliveryOf(ev Event, v judged) *Delivery {
	return &Delivery{
		EventID: ev.ID, EventKey: ev.Key, AccountID: ev.AccountID, TenantID: ev.TenantID, Channel: ev.Channel,
		Kind: ev.Kind, OutTradeNo: ev.OutTradeNo, Amount: ev.Amount, Currency: ev.Currency, OrderState: v.order, Flow: v.Flow,
	}
}

// resumable is the deadline at or before which a RECEIVED event has rested for the plan's time.
func (e *Entry) resumable() time.Time { return e.now().Add(e.plan.Received - e.plan.Resume) }

// claimResume lets one of many duplicates deliver an event that is still RECEIVED, and only when it has rested.
// Guard: next_drive_at in the WHERE clause; the row is locked.
func (e *Entry) claimResume(ctx context.Context, tx pgx.Tx, ev Event, v judged) (*Delivery, error) {
	now := e.now()
	tag, err := tx.Exec(ctx, claimResumeSQL,
		ev.ID, now.Add(e.plan.Received), e.resumable())
	if err != nil {
		return nil, fmt.Errorf("resume the event: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil, nil
	}
	return deliveryOf(ev, v), nil
}

// readOrder reads what judging needs of an order; nil if there is none. lock follows the statement, empty or FOR UPDATE.
func readOrder(ctx context.Context, db Querier, tenantID, outTradeNo, lock string) (*order, error) {
	rows, err := db.Query(ctx, "SELECT id, amount, currency, account_id, state, json_array_length(items) AS items, wants_code, channel_reference, prepay_state FROM payments WHERE tenant_id = $1 AND out_trade_no = $2 "+lock, tenantID, outTradeNo)
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[order])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	return found, nil
}

// lockEvent reads one event and keeps others from settling it until the transaction ends. Error: [ErrEventNotFound].
func lockEvent(ctx context.Context, tx pgx.Tx, where string, args ...any) (Event, error) {
	rows, err := tx.Query(ctx, eventSQL+" WHERE "+where+" FOR UPDATE OF e", args...)
	if err != nil {
		return Event{}, fmt.Errorf("lock the event: %w", err)
	}
	ev, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Event])
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrEventNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("lock the event: %w", err)
	}
	return ev, nil
}
