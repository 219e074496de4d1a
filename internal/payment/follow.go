package payment

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
)

var reported = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "paylatch_events_reported_total",
	Help: "Events stored at the entry, by channel and by what they were taken for; a duplicate is counted as duplicate.",
}, []string{"channel", "result"})

// follow does what comes after the commit: it counts, tells people, and lists what is to be handed on. The event is safe by now.
func (e *Entry) follow(acct tenant.Account, results []Reported) (due []Delivery) {
	for _, r := range results {
		e.tell(acct.Channel.Name(), acct.TenantID, r)
		if r.delivery != nil {
			due = append(due, *r.delivery)
		}
	}
	return due
}

func (e *Entry) tell(channelName, tenantID string, r Reported) {
	if r.Duplicate {
		// The normal case, a thousand times at once: where nobody reads its line, it is not made.
		if line := e.log.Check(zap.InfoLevel, "duplicate event"); line != nil {
			line.Write(zap.String("tenant", tenantID), zap.String("channel", channelName), zap.Int64("event", r.EventID), zap.String("event_key", r.Key), zap.String("state", string(r.State)))
		}
		reported.WithLabelValues(channelName, "duplicate").Inc()
		return
	}
	log := e.log.WithLazy(zap.String("tenant", tenantID), zap.String("channel", channelName), zap.Int64("event", r.EventID), zap.String("event_key", r.Key))
	result := string(r.Outcome)
	switch {
	case r.State == Parked && r.Outcome == Conflict:
		alert.Raise(log, alert.Conflict, "an event contradicts one that was accepted before", zap.String("reason", r.reason))
	case r.State == Parked:
		alert.Raise(log, alert.EventParked, "an authentic event is parked", zap.String("outcome", string(r.Outcome)), zap.String("reason", r.reason))
	case r.State == Received:
		result = string(Received)
		log.Info("event received")
	default:
		log.Info("event settled at the entry", zap.String("outcome", string(r.Outcome)), zap.String("reason", r.reason))
	}
	reported.WithLabelValues(channelName, result).Inc()
}

// giveUpAfter failures in a row the engine is taken to be away.
const giveUpAfter = 3

// deliver hands events to the engine, each within the plan's time, and returns how many it took. A failure is harmless: the
// row is durable, and the re-drive takes it a little later, the later the more often it has failed. One event that the
// engine refuses does not stop the others; when several fail in a row the engine is away, and the rest is not tried. An engine
// that does not answer at all is nobody's fault: events that waited out an outage are not late and not stuck when it is over.
func (e *Entry) deliver(ctx context.Context, due []Delivery) (taken int) {
	// A caller that hung up must not keep an event from its flow.
	ctx = context.WithoutCancel(ctx)
	failed := 0
	for i, d := range due {
		err := e.hand(ctx, d)
		silent := errors.Is(err, errSilent) || errors.Is(err, context.DeadlineExceeded)
		if err == nil {
			taken++
			failed = 0
			continue
		}
		failed++
		e.log.Warn("the engine did not take an event; the re-drive will deliver it", zap.String("tenant", d.TenantID),
			zap.Int64("event", d.EventID), zap.Int("drives", d.Drives), zap.Error(err))
		if failed == giveUpAfter || len(due) <= giveUpAfter {
			e.postpone(ctx, due[i:], silent && taken == 0)
			return taken
		}
		e.postpone(ctx, due[i:i+1], silent && taken == 0)
	}
	return taken
}

const (
	// handFor bounds one hand-over itself, handsAtOnce how many go on that nobody waits for any more.
	handFor     = 5 * time.Second
	handsAtOnce = 256
)

// errSilent says that the engine has not answered within the time that a callback may wait.
var errSilent = errors.New("the engine has not answered yet")

// hand gives one event to the engine. The caller waits for the plan's time and no longer; the call itself goes on: cut off,
// it could leave a flow that has begun without its first task, which came with the answer that nobody took.
func (e *Entry) hand(ctx context.Context, d Delivery) error {
	select {
	case e.hands <- struct{}{}:
	default:
		return errSilent // so many wait already that this one would only wait with them
	}
	type handed struct {
		err   error
		fault any
	}
	done := make(chan handed, 1)
	go func() {
		var h handed
		defer func() {
			// Here a panic would end the process: it is the caller's, or a line in the log where nobody waits any more.
			if h.fault = recover(); h.fault != nil {
				e.log.Error("panic while an event was handed over", zap.Int64("event", d.EventID), zap.Any("panic", h.fault), zap.ByteString("stack", debug.Stack()))
			}
			done <- h
			<-e.hands
		}()
		call, cancel := context.WithTimeout(ctx, handFor)
		defer cancel()
		h.err = e.driver.Deliver(call, d)
	}()
	wait := time.NewTimer(e.plan.Signal)
	defer wait.Stop()
	select {
	case h := <-done:
		if h.fault != nil {
			panic(h.fault)
		}
		return h.err
	case <-wait.C:
		return errSilent
	}
}

// postpone makes the re-drive take events after the plan's retry time, doubled for each time it has tried, but never later than
// their deadline. While the engine is away it is the retry time alone, and the try does not count.
func (e *Entry) postpone(ctx context.Context, due []Delivery, away bool) {
	var ids []int64
	var at []time.Time
	for _, d := range due {
		tries := min(d.Drives, 7)
		if away {
			tries = 0
		}
		ids = append(ids, d.EventID)
		at = append(at, e.now().Add(min(e.plan.Retry<<tries, e.plan.Received)))
	}
	ctx, cancel := context.WithTimeout(ctx, e.plan.Signal)
	defer cancel()
	_, err := e.pool.Exec(ctx, `
UPDATE channel_events e SET next_drive_at = u.at, drives = CASE WHEN $3 THEN greatest(e.drives - 1, 0) ELSE e.drives END
  FROM unnest($1::bigint[], $2::timestamptz[]) AS u (id, at)
 WHERE e.id = u.id AND e.state = 'RECEIVED'`, ids, at, away)
	if err != nil {
		e.log.Warn("events keep their full deadline", zap.Int64s("events", ids), zap.Error(err))
	}
}

// OrderCreated looks for events that came before their order. The creator calls it after its commit, and waits for it, so it
// takes a few; what it leaves, or misses by a crash, the re-drive finds.
func (e *Entry) OrderCreated(ctx context.Context, tenantID, outTradeNo string) error {
	rows, err := e.pool.Query(ctx, `
SELECT id FROM channel_events
 WHERE tenant_id = $1 AND out_trade_no = $2 AND state = 'PARKED' AND outcome = 'UNKNOWN_ORDER' ORDER BY id LIMIT 20`, tenantID, outTradeNo)
	if err != nil {
		return fmt.Errorf("look for events of order %s: %w", outTradeNo, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("look for events of order %s: %w", outTradeNo, err)
	}
	return e.matchAll(ctx, ids)
}

// RowCreated is [Entry.OrderCreated] for the row of another matter: it looks for events that came before the row of that
// number and were parked for it.
func (e *Entry) RowCreated(ctx context.Context, tenantID string, parkedAs Outcome, number string) error {
	rows, err := e.pool.Query(ctx, `
SELECT id FROM channel_events
 WHERE tenant_id = $1 AND out_no = $2 AND state = 'PARKED' AND outcome = $3 ORDER BY id LIMIT 20`, tenantID, number, parkedAs)
	if err != nil {
		return fmt.Errorf("look for events of %s: %w", number, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("look for events of %s: %w", number, err)
	}
	return e.matchAll(ctx, ids)
}

func (e *Entry) matchAll(ctx context.Context, ids []int64) error {
	var failed error
	var due []Delivery
	for _, id := range ids {
		r, changed, err := e.rejudge(ctx, id)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if changed {
			e.tell(r.channel, r.tenant, r)
		}
		if r.delivery != nil {
			due = append(due, *r.delivery)
		}
	}
	e.deliver(ctx, due)
	return failed
}

// rejudge judges an event again that is parked until what it is about is there, by its stored facts; changed is false while
// it is not.
func (e *Entry) rejudge(ctx context.Context, eventID int64) (result Reported, changed bool, err error) {
	err = database.InTx(ctx, e.pool, func(tx pgx.Tx) error {
		ev, err := lockEvent(ctx, tx, "e.id = $1", eventID)
		if err != nil {
			return err
		}
		result, changed = Reported{}, false
		if ev.State != Parked || !waits(deref(ev.Outcome)) {
			return nil
		}
		r := reportOf(ev)
		v, err := e.judge(ctx, tx, ev, r)
		if err != nil || v.State == Parked && v.Outcome == deref(ev.Outcome) {
			return err
		}
		if result, err = e.update(ctx, tx, ev.ID, r, v.Verdict, ev.ReceiptID); err != nil {
			return err
		}
		changed = true
		result.channel, result.tenant = ev.Channel, ev.TenantID
		result = routed(result, ev, v)
		return nil
	})
	if err != nil {
		return Reported{}, false, fmt.Errorf("judge event %d again: %w", eventID, err)
	}
	return result, changed, nil
}

// Replay reads the stored body of an event again and takes it through the entry, as if it had just come: after a
// configuration was corrected, for instance. A settled event stays as it is. Error: [ErrEventNotFound].
func (e *Entry) Replay(ctx context.Context, tenantID string, eventID int64) ([]Reported, error) {
	var accountID int64
	var key string
	var body []byte
	err := e.pool.QueryRow(ctx, `
SELECT e.account_id, e.event_key, r.body
  FROM channel_events e JOIN channel_receipts r ON r.id = e.receipt_id
 WHERE e.tenant_id = $1 AND e.id = $2`, tenantID, eventID).Scan(&accountID, &key, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrEventNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read event %d: %w", eventID, err)
	}
	acct, err := e.accounts.ByID(ctx, accountID)
	if err != nil {
		return nil, err
	}
	// On record before it has any effect: what follows are several transactions.
	if err := database.InTx(ctx, e.pool, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, tenantID, audit.EventReplayed, audit.Event(eventID), "")
	}); err != nil {
		return nil, err
	}
	results, err := e.report(ctx, acct, body, e.now(), true, e.deliver)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		// An operator who asks for a replay does not wait for the event's deadline.
		if r.State == Received && r.delivery == nil {
			if err := e.redeliver(ctx, r.EventID); err != nil {
				return nil, err
			}
		}
	}
	return results, e.supersede(ctx, eventID, key, results)
}

func (e *Entry) redeliver(ctx context.Context, eventID int64) error {
	rows, err := e.pool.Query(ctx, eventSQL+" WHERE e.id = $1 AND e.state = 'RECEIVED'", eventID)
	if err != nil {
		return fmt.Errorf("read event %d: %w", eventID, err)
	}
	ev, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Event])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // settled meanwhile
	}
	if err != nil {
		return fmt.Errorf("read event %d: %w", eventID, err)
	}
	v, err := e.judge(ctx, e.pool, ev, reportOf(ev))
	if err != nil {
		return err
	}
	d := deliveryOf(ev, v)
	d.Resume = true
	e.deliver(ctx, []Delivery{*d})
	return nil
}

// supersede closes an event that stood under its body's hash, once the body has become an event of its own key.
func (e *Entry) supersede(ctx context.Context, eventID int64, key string, results []Reported) error {
	for _, r := range results {
		if r.Key == key || r.EventID == eventID || r.Outcome == Conflict {
			return nil
		}
	}
	_, err := e.pool.Exec(ctx, `
UPDATE channel_events SET state = 'IGNORED', outcome = $2, reason = $3, state_since = $4 WHERE id = $1 AND state = 'PARKED'`,
		eventID, Superseded, fmt.Sprintf("read again as event %d", results[0].EventID), e.now())
	if err != nil {
		return fmt.Errorf("close event %d: %w", eventID, err)
	}
	return nil
}
