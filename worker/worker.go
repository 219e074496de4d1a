// Package worker runs what polls: one Temporal worker per task queue, and the re-drive beside the payments queue.
package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/activities"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/workflows"
)

// Queues lists the task queues that this build serves.
func Queues() []string { return []string{workflows.PaymentsQueue, workflows.LedgerQueue} }

// ParseQueues reads a list such as "payments,ledger"; empty means all.
func ParseQueues(list string) ([]string, error) {
	if list == "" {
		return Queues(), nil
	}
	var queues []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(Queues(), name) {
			return nil, fmt.Errorf("no task queue %q: there are %s", name, strings.Join(Queues(), ", "))
		}
		if !slices.Contains(queues, name) {
			queues = append(queues, name)
		}
	}
	return queues, nil
}

// Config is what a worker process runs on.
type Config struct {
	Client client.Client
	Queues []string
	Books  *payment.Books
	Entry  *payment.Entry
	Log    *zap.Logger
	// DatabaseConnections is the size of the engine's pool; no more database steps run at once.
	DatabaseConnections int
}

// stopTimeout lets running steps end when the process is asked to stop.
const stopTimeout = 20 * time.Second

// Run serves the queues until ctx is done, then lets running steps end. It returns an error only if it could not begin.
func Run(ctx context.Context, c Config) error {
	var workers []worker.Worker
	stop := func() {
		for _, w := range workers {
			w.Stop()
		}
	}
	for _, queue := range c.Queues {
		w := New(c.Client, queue, c.DatabaseConnections)
		Register(w, queue, &activities.Payments{Books: c.Books})
		if err := w.Start(); err != nil {
			stop()
			return fmt.Errorf("start the worker of queue %s: %w", queue, err)
		}
		workers = append(workers, w)
	}
	if slices.Contains(c.Queues, workflows.PaymentsQueue) {
		redrive(ctx, c.Entry, c.Log)
	} else {
		<-ctx.Done()
	}
	stop()
	return nil
}

// New makes a worker without any registration.
func New(c client.Client, queue string, connections int) worker.Worker {
	scaling := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	return worker.New(c, queue, worker.Options{
		// Two fixed pollers leave tasks in partitions that nobody polls: seconds of waiting under load.
		WorkflowTaskPollerBehavior: scaling,
		ActivityTaskPollerBehavior: scaling,
		// Steps that have no connection only time out: no more of them at once than the pool has.
		MaxConcurrentActivityExecutionSize:      connections,
		MaxConcurrentLocalActivityExecutionSize: connections,
		WorkerStopTimeout:                       stopTimeout,
	})
}

// Register gives a queue's worker what it serves, under the names that histories hold.
func Register(w worker.Registry, queue string, payments *activities.Payments) {
	if queue == workflows.PaymentsQueue {
		w.RegisterWorkflowWithOptions(workflows.Payment, workflow.RegisterOptions{Name: workflows.PaymentWorkflow})
		w.RegisterWorkflowWithOptions(workflows.Event, workflow.RegisterOptions{Name: workflows.EventWorkflow})
	}
	w.RegisterActivityWithOptions(payments.ApplyEvent, activity.RegisterOptions{Name: workflows.ApplyEventActivity})
}

// redriveEvery is how often overdue rows are looked for: each look is a few index reads. A round that takes longer than
// its time-out goes on in the next one.
const (
	redriveEvery   = 2 * time.Second
	redriveTimeout = 30 * time.Second
)

func redrive(ctx context.Context, entry *payment.Entry, log *zap.Logger) {
	tick := time.NewTicker(redriveEvery)
	defer tick.Stop()
	for {
		round, cancel := context.WithTimeout(ctx, redriveTimeout)
		moved, err := entry.Redrive(round)
		cancel()
		if err != nil && ctx.Err() == nil {
			log.Warn("re-drive: some rows were not looked after; the next round tries again", zap.Error(err))
		} else if moved > 0 {
			log.Info("re-drive moved rows", zap.Int("rows", moved))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
