package share

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
)

const (
	// driveEvery is when the re-drive looks at a sharing that has not ended.
	driveEvery = 5 * time.Minute
	// retryDeadline is when it starts one that the engine did not take.
	retryDeadline = 5 * time.Second
	// A sharing that the channel has not answered about, or has and does not end, for so long is somebody's business.
	unheardTooLong = 10 * time.Minute
	openTooLong    = 24 * time.Hour
	// tellEvery is when somebody is told again of what still does not end.
	tellEvery = 24 * time.Hour

	redriveBatch   = 100
	redriveTimeout = 30 * time.Second
)

var (
	unended = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_shares_unended",
		Help: "Profit sharings that have not ended, by state.",
	}, []string{"state"})
	oldestUnended = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "paylatch_shares_unended_oldest_seconds",
		Help: "Age of the oldest profit sharing that has not ended, by state; 0 without one.",
	}, []string{"state"})
)

// Redrive looks once after sharings that have not ended by their deadline, and returns how many it started.
func (s *Service) Redrive(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, redriveTimeout)
	defer cancel()
	measureErr := s.measure(ctx)
	started, err := s.startDue(ctx)
	asked, returnsErr := s.startReturnsDue(ctx)
	return started + asked, errors.Join(err, returnsErr, measureErr)
}

func (s *Service) measure(ctx context.Context) error {
	for _, state := range []State{Pending, Unknown, Processing} {
		var count int64
		var since *time.Time
		if err := s.pool.QueryRow(ctx, "SELECT count(*), min(created_at) FROM shares WHERE state = $1 AND ended_at IS NULL", state).Scan(&count, &since); err != nil {
			return fmt.Errorf("count %s sharings: %w", state, err)
		}
		age := 0.0
		if since != nil {
			age = s.now().Sub(*since).Seconds()
		}
		unended.WithLabelValues(string(state)).Set(float64(count))
		oldestUnended.WithLabelValues(string(state)).Set(age)
	}
	return nil
}

func (s *Service) startDue(ctx context.Context) (int, error) {
	now := s.now()
	rows, err := s.pool.Query(ctx, claimSQL, now, now.Add(s.rests), redriveBatch)
	if err != nil {
		return 0, fmt.Errorf("claim overdue sharings: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, fmt.Errorf("claim overdue sharings: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	due, err := many(ctx, s.pool, " WHERE s.id = ANY($1) AND s.ended_at IS NULL ORDER BY s.id", ids)
	if err != nil {
		return 0, err
	}
	for i, sh := range due {
		rests := now.Sub(sh.StateSince)
		if sh.State == Processing && rests > openTooLong || sh.State != Processing && rests > unheardTooLong {
			s.alert(ctx, sh, sh.StateSince, "a profit sharing does not end")
		}
		if !s.start(ctx, sh, func(ctx context.Context) error { return s.driver.StartShare(ctx, sh, true) }) {
			s.soon(ctx, due[i+1:]...) // the engine is away: the others were not tried, and wait no longer than this one
			return i, nil
		}
	}
	return len(due), nil
}

// alert tells people of a sharing that is so since then: once, and again every day.
func (s *Service) alert(ctx context.Context, sh Share, since time.Time, what string) {
	now := s.now()
	tag, err := s.pool.Exec(ctx, toldSQL, sh.ID, now, since, now.Add(-tellEvery))
	if err == nil && tag.RowsAffected() == 0 {
		return // they were told
	}
	alert.Raise(s.log, alert.ShareStuck, what, zap.String("tenant", sh.TenantID), zap.String("share", sh.OutOrderNo),
		zap.String("state", string(sh.State)), zap.String("reason", sh.Reason), zap.Error(err))
}
