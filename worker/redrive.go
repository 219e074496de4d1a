package worker

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/transfer"
)

// redriveEvery is how often overdue rows are looked for: each look is a few index reads.
const redriveEvery = 2 * time.Second

// Redrive looks after overdue rows until ctx is done. It needs the database alone: while the engine is away orders still
// expire, events are matched, and people are told.
func Redrive(ctx context.Context, entry *payment.Entry, transfers *transfer.Service, log *zap.Logger) {
	tick := time.NewTicker(redriveEvery)
	defer tick.Stop()
	for {
		moved, err := entry.Redrive(ctx)
		started, transfersErr := transfers.Redrive(ctx)
		moved += started
		err = errors.Join(err, transfersErr)
		if err != nil && ctx.Err() == nil {
			log.Warn("re-drive: some rows were not looked after; the next round tries again", zap.Error(err))
		}
		if moved > 0 {
			log.Info("re-drive moved rows", zap.Int("rows", moved))
		}
		if moved >= payment.RedriveBatch && err == nil {
			continue // there is more
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
