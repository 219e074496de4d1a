package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// finish is where flows arrive: when the step of each has succeeded, which is after its commit.
type finish struct {
	mu   sync.Mutex
	runs map[string]int // by the flow's id
	at   []time.Time
	left int
	done chan struct{}
}

func newFinish(ids []string) *finish {
	f := &finish{runs: make(map[string]int, len(ids)), at: make([]time.Time, len(ids)), left: len(ids), done: make(chan struct{})}
	for i, id := range ids {
		f.runs[id] = i
	}
	return f
}

// arrive is told of each step that has succeeded; a step may run twice.
func (f *finish) arrive(id string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, mine := f.runs[id]
	if !mine || !f.at[i].IsZero() {
		return
	}
	f.at[i] = now
	if f.left--; f.left == 0 {
		close(f.done)
	}
}

// wait waits for all. It gives up when nothing has arrived for so long: what the re-drive takes comes within its plan.
func (f *finish) wait(ctx context.Context, patience time.Duration) error {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	before := -1
	for {
		select {
		case <-f.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			f.mu.Lock()
			left := f.left
			f.mu.Unlock()
			if left == before {
				return fmt.Errorf("%d of %d flows have not ended, and none did for %s", left, len(f.at), patience)
			}
			before = left
		}
	}
}

// watcher tells the finish of the moment, as an interceptor of the worker's client.
type watcher struct {
	interceptor.InterceptorBase
	finish atomic.Pointer[finish]
}

// InterceptActivity implements [interceptor.WorkerInterceptor].
func (w *watcher) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &watched{interceptor.ActivityInboundInterceptorBase{Next: next}, w}
}

type watched struct {
	interceptor.ActivityInboundInterceptorBase
	by *watcher
}

// ExecuteActivity implements [interceptor.ActivityInboundInterceptor].
func (a *watched) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := a.Next.ExecuteActivity(ctx, in)
	if f := a.by.finish.Load(); f != nil && err == nil {
		f.arrive(activity.GetInfo(ctx).WorkflowExecution.ID, time.Now())
	}
	return result, err
}
