package refund

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/ledger"
)

var (
	open = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_refunds_open",
		Help: "Refunds that have not ended, by state.",
	}, []string{"state"})
	oldestOpen = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_refunds_open_oldest_seconds",
		Help: "Age of the oldest refund that has not ended, by state; 0 without one.",
	}, []string{"state"})
)

var (
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/claim_alerts.sql
	claimAlertsSQL string
	//go:embed sql/to_return.sql
	toReturnSQL string
)

const (
	// redriveBatch bounds one round of each kind.
	redriveBatch = 100
	// redriveTimeout bounds one step of a round.
	redriveTimeout = 30 * time.Second
)

// Redrive looks once after refunds that stopped moving: flows that were lost are started again, money in suspense goes back
// where the tenant's policy says so, and people are told of what is open for too long. It returns how many rows it moved.
func (s *Service) Redrive(ctx context.Context) (moved int, err error) {
	for _, step := range []func(context.Context) (int, error){s.measure, s.returnDue, s.alertDue, s.startDue} {
		bounded, cancel := context.WithTimeout(ctx, redriveTimeout)
		n, stepErr := step(bounded)
		cancel()
		moved += n
		err = errors.Join(err, stepErr)
	}
	return moved, err
}

func (s *Service) startDue(ctx context.Context) (int, error) {
	now := s.now()
	rows, err := s.pool.Query(ctx, claimSQL, now, now.Add(s.restart), redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("claim overdue refunds: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[Ref])
	if err != nil {
		return 0, fmt.Errorf("claim overdue refunds: %w", err)
	}
	for i, r := range due {
		if !s.start(ctx, r, true) {
			s.soon(ctx, due[i+1:]...) // the engine is away: the others were not tried, and wait no longer than this one
			return i, nil
		}
	}
	return len(due), nil
}

func (s *Service) alertDue(ctx context.Context) (int, error) {
	now := s.now()
	rows, err := s.pool.Query(ctx, claimAlertsSQL, now, now.Add(alertAfter), redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("find refunds that are open for long: %w", err)
	}
	type overdue struct {
		TenantID, OutRefundNo string
		State                 State
		Abnormal              bool
		CreatedAt             time.Time
		Failure               string
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[overdue])
	if err != nil {
		return 0, fmt.Errorf("find refunds that are open for long: %w", err)
	}
	for _, r := range due {
		alert.Raise(s.log, alert.RefundStuck, "a refund does not end", zap.String("tenant", r.TenantID), zap.String("refund", r.OutRefundNo),
			zap.String("state", string(r.State)), zap.Bool("abnormal", r.Abnormal), zap.Time("created_at", r.CreatedAt), zap.String("why", r.Failure))
	}
	return 0, nil // telling moves nothing
}

// returnDue gives money in suspense back for the tenants whose policy says so. What the channel refused before is a person's.
func (s *Service) returnDue(ctx context.Context) (moved int, failed error) {
	accounts, err := s.askableOfPolicy(ctx)
	if err != nil || len(accounts) == 0 {
		return 0, err
	}
	rows, err := s.pool.Query(ctx, toReturnSQL, accounts, redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("find money in suspense that goes back: %w", err)
	}
	type due struct {
		TenantID string
		EventID  int64
		Outcome  string
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[due])
	if err != nil {
		return 0, fmt.Errorf("find money in suspense that goes back: %w", err)
	}
	for _, d := range list {
		_, created, err := s.Return(ctx, d.TenantID, d.EventID, "no order waits for it: "+d.Outcome, true)
		switch {
		case errors.Is(err, ledger.ErrInsufficient), errors.Is(err, ErrNotInSuspense), errors.Is(err, ErrRefundedAlready), errors.Is(err, errTaken):
			failed = errors.Join(failed, s.cannotGo(ctx, d.TenantID, d.EventID, err))
		case err != nil:
			failed = errors.Join(failed, err)
		case created:
			moved++
		}
	}
	return moved, failed
}

// cannotGo writes down why money in suspense does not go back by itself, and tells people, once: from here on it is theirs.
func (s *Service) cannotGo(ctx context.Context, tenantID string, eventID int64, why error) error {
	tag, err := s.pool.Exec(ctx, "UPDATE channel_events SET return_refused = $2 WHERE id = $1 AND return_refused = ''", eventID, why.Error())
	if err != nil {
		return fmt.Errorf("write down why the money of event %d does not go back: %w", eventID, err)
	}
	if tag.RowsAffected() == 1 {
		alert.Raise(s.log, alert.MoneyAside, "money in suspense cannot go back by itself", zap.String("tenant", tenantID), zap.Int64("event", eventID), zap.Error(why))
	}
	return nil
}

// askableOfPolicy lists the channel accounts whose tenants want money in suspense to go back by itself, and whose channel can be
// asked whether it was paid. Where it cannot, nothing goes back by itself.
func (s *Service) askableOfPolicy(ctx context.Context) (askable []int64, err error) {
	rows, err := s.pool.Query(ctx, "SELECT c.id FROM channel_accounts c JOIN tenants t USING (tenant_id) WHERE t.suspense_refund = 'automatic' ORDER BY c.id")
	if err != nil {
		return nil, fmt.Errorf("look for tenants whose money in suspense goes back: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("look for tenants whose money in suspense goes back: %w", err)
	}
	for _, id := range ids {
		asks, err := s.accounts.Asks(ctx, id)
		if err != nil {
			s.log.Warn("money in suspense waits: the account does not open", zap.Int64("account", id), zap.Error(err))
		}
		if asks && err == nil {
			askable = append(askable, id)
		}
	}
	return askable, nil
}

// measure keeps the gauges.
func (s *Service) measure(ctx context.Context) (int, error) {
	for _, state := range []State{Pending, Unknown} {
		var count int64
		var since *time.Time
		if err := s.pool.QueryRow(ctx, "SELECT count(*), min(created_at) FROM refunds WHERE state = $1 AND state IN ('PENDING', 'UNKNOWN')", state).Scan(&count, &since); err != nil {
			return 0, fmt.Errorf("count %s refunds: %w", state, err)
		}
		age := 0.0
		if since != nil {
			age = s.now().Sub(*since).Seconds()
		}
		open.WithLabelValues(string(state)).Set(float64(count))
		oldestOpen.WithLabelValues(string(state)).Set(age)
	}
	return 0, nil
}
