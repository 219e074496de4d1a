package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// alive tells the engine that a call is still being worked on, until stop is called: a worker that died is noticed within the
// heartbeat's time, and not only when the call should have ended.
func alive(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() { close(done) }
}
