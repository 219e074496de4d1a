package worker

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/payment"
)

// redriveEvery is how often overdue rows are looked for: each look is a few index reads.
const redriveEvery = 2 * time.Second

// Driven looks once after its rows that stopped moving, and returns how many it moved. Any number of processes may call it.
type Driven interface {
	Redrive(ctx context.Context) (moved int, err error)
}

// Redrive looks after overdue rows until ctx is done. It needs the database alone: while the engine is away orders still
// expire, events are matched, and people are told.
func Redrive(ctx context.Context, log *zap.Logger, drives ...Driven) {
	tick := time.NewTicker(redriveEvery)
	defer tick.Stop()
	for {
		moved := 0
		var err error
		for _, d := range drives {
			n, failed := d.Redrive(ctx)
			moved += n
			err = errors.Join(err, failed)
		}
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
