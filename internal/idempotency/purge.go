package idempotency

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var purged = promauto.NewCounter(prometheus.CounterOpts{
	Name: "paylatch_idempotency_keys_purged_total",
	Help: "Idempotency keys deleted because their answers had been kept long enough.",
})

// One batch is short, and one round ends.
const (
	purgeBatch  = 500
	purgeRounds = 20
)

// Purger deletes answers that have been kept long enough. It takes the engine's pool.
type Purger struct{ Pool *pgxpool.Pool }

// Redrive deletes what has expired, a few at a time. Deleting moves nothing, so it counts nothing as moved.
func (p Purger) Redrive(ctx context.Context) (moved int, err error) {
	for range purgeRounds {
		tag, err := p.Pool.Exec(ctx, purgeSQL, purgeBatch)
		if err != nil {
			return 0, fmt.Errorf("purge idempotency keys: %w", err)
		}
		purged.Add(float64(tag.RowsAffected()))
		if tag.RowsAffected() < purgeBatch {
			break
		}
	}
	return 0, nil
}
