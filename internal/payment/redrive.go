package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/stock"
)

var (
	redriven = promauto.NewCounter(prometheus.CounterOpts{
		Name: "paylatch_events_redriven_total",
		Help: "Events delivered by the re-drive because they had passed their deadline.",
	})
	expired = promauto.NewCounter(prometheus.CounterOpts{
		Name: "paylatch_payments_expired_total",
		Help: "Payments closed because nobody paid them in time.",
	})
	inSuspense = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "paylatch_suspense_accounts",
		Help: "Suspense accounts with money in them: it waits for a person, whether or not an alert was seen.",
	})
	unsettled = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_events_unsettled",
		Help: "Events that are RECEIVED or PARKED.",
	}, []string{"state"})
	oldest = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_events_unsettled_oldest_seconds",
		Help: "Age of the oldest event that is RECEIVED or PARKED; 0 without one.",
	}, []string{"state"})
)

// RedriveBatch bounds one round of each kind, so that a round ends and the next one sees what is most overdue.
const RedriveBatch = 200

// redriveTimeout bounds one step of a round.
const redriveTimeout = 30 * time.Second

// stuckAfter is the number of deliveries after which an event is not a delay any more.
const stuckAfter = 5

// Redrive looks once after everything that stopped moving: events past their deadline are delivered again, events whose
// order has come are matched, orders past their time are closed, parked events past theirs are alerted. Any number of
// processes may run it; claims by conditional update keep them apart. It returns how many rows it moved.
func (e *Entry) Redrive(ctx context.Context) (moved int, err error) {
	// A slow engine holds up its own step alone.
	for _, step := range []func(context.Context) (int, error){e.measure, e.expireDue, e.matchDue, e.alertDue, e.redeliverDue} {
		bounded, cancel := context.WithTimeout(ctx, redriveTimeout)
		n, stepErr := step(bounded)
		cancel()
		moved += n
		err = errors.Join(err, stepErr)
	}
	return moved, err
}

func (e *Entry) redeliverDue(ctx context.Context) (int, error) {
	now := e.now()
	rows, err := e.pool.Query(ctx, claimReceivedSQL, now, now.Add(e.plan.Received), RedriveBatch)
	if err != nil {
		return 0, fmt.Errorf("claim overdue events: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[Delivery])
	if err != nil {
		return 0, fmt.Errorf("claim overdue events: %w", err)
	}
	for i := range due {
		due[i].Resume = true
		if e.matters[due[i].Kind] != nil {
			due[i].OrderState = "" // it is not the order's event, whatever order it names
			if due[i].Flow, err = e.flowOf(ctx, due[i]); err != nil {
				return 0, err
			}
		}
		if due[i].Drives >= stuckAfter {
			// Its order's flow does not get it booked, and must not be woken for ever.
			due[i].Alone = true
			alert.Raise(e.log, alert.EventStuck, "an event is delivered again and again, and not booked",
				zap.String("tenant", due[i].TenantID), zap.Int64("event", due[i].EventID), zap.Int("drives", due[i].Drives))
		}
	}
	taken := e.deliver(ctx, due)
	redriven.Add(float64(taken))
	return taken, nil
}

// flowOf asks the matter of an event which flow it belongs to by now.
func (e *Entry) flowOf(ctx context.Context, d Delivery) (Flow, error) {
	rows, err := e.pool.Query(ctx, eventSQL+" WHERE e.id = $1", d.EventID)
	if err != nil {
		return Flow{}, fmt.Errorf("read event %d: %w", d.EventID, err)
	}
	ev, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Event])
	if err != nil {
		return Flow{}, fmt.Errorf("read event %d: %w", d.EventID, err)
	}
	v, err := e.judge(ctx, e.pool, ev, reportOf(ev))
	return v.Flow, err
}

func (e *Entry) matchDue(ctx context.Context) (int, error) {
	rows, err := e.pool.Query(ctx, matchedSQL, RedriveBatch)
	if err != nil {
		return 0, fmt.Errorf("find events whose order has come: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("find events whose order has come: %w", err)
	}
	for _, m := range e.matters.each() {
		more, err := m.Matched(ctx, e.pool, RedriveBatch)
		if err != nil {
			return 0, err
		}
		ids = append(ids, more...)
	}
	return len(ids), e.matchAll(ctx, ids)
}

func (e *Entry) expireDue(ctx context.Context) (int, error) {
	tag, err := e.pool.Exec(ctx, expireSQL, e.now(), RedriveBatch)
	if err != nil {
		return 0, fmt.Errorf("close expired payments: %w", err)
	}
	closed := int(tag.RowsAffected())
	defer func() { expired.Add(float64(closed)) }() // what is closed counts, whatever fails after it
	// Orders with items go one by one: each locks its stock in order.
	for range RedriveBatch {
		one, err := e.expireOne(ctx)
		if err != nil {
			return closed, err
		}
		if !one {
			break
		}
		closed++
	}
	return closed, nil
}

func (e *Entry) expireOne(ctx context.Context) (closed bool, err error) {
	err = database.InTx(ctx, e.pool, func(tx pgx.Tx) error {
		var tenantID, outTradeNo string
		err := tx.QueryRow(ctx, expireOneSQL, e.now()).Scan(&tenantID, &outTradeNo)
		closed = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return stock.Release(ctx, tx, tenantID, reservationKey(outTradeNo))
	})
	if err != nil {
		return false, fmt.Errorf("close an expired payment: %w", err)
	}
	return closed, nil
}

func (e *Entry) alertDue(ctx context.Context) (int, error) {
	now := e.now()
	rows, err := e.pool.Query(ctx, claimParkedSQL, now, now.Add(e.plan.Parked), RedriveBatch)
	if err != nil {
		return 0, fmt.Errorf("find overdue parked events: %w", err)
	}
	type overdue struct {
		ID         int64
		TenantID   string
		Key        string
		Outcome    Outcome
		ReceivedAt time.Time
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[overdue])
	if err != nil {
		return 0, fmt.Errorf("find overdue parked events: %w", err)
	}
	for _, d := range due {
		alert.Raise(e.log, alert.ParkedTooOld, "a parked event has passed its deadline: replay it, book it to suspense or reject it",
			zap.String("tenant", d.TenantID), zap.Int64("event", d.ID), zap.String("event_key", d.Key),
			zap.String("outcome", string(d.Outcome)), zap.Time("received_at", d.ReceivedAt))
	}
	return 0, nil // telling moves nothing
}

// measure keeps the gauges: what nobody counts, nobody misses.
func (e *Entry) measure(ctx context.Context) (int, error) {
	for _, state := range []EventState{Received, Parked} {
		var count int64
		var since *time.Time
		if err := e.pool.QueryRow(ctx, "SELECT count(*), min(received_at) FROM channel_events WHERE state = $1", state).Scan(&count, &since); err != nil {
			return 0, fmt.Errorf("count %s events: %w", state, err)
		}
		age := 0.0
		if since != nil {
			age = e.now().Sub(*since).Seconds()
		}
		unsettled.WithLabelValues(string(state)).Set(float64(count))
		oldest.WithLabelValues(string(state)).Set(age)
	}
	var accounts float64
	if err := e.pool.QueryRow(ctx, "SELECT count(*)::float8 FROM ledger_accounts WHERE code = 'suspense' AND balance <> 0").Scan(&accounts); err != nil {
		return 0, fmt.Errorf("count the suspense accounts: %w", err)
	}
	inSuspense.Set(accounts)
	return 0, nil
}
