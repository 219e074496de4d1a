// Package worker runs what polls: one Temporal worker per task queue, and the re-drive.
package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/activities"
	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/workflows"
)

// Queues lists the task queues that this build serves.
func Queues() []string {
	return []string{
		workflows.PaymentsQueue, workflows.LedgerQueue, workflows.ParticipantsQueue,
		workflows.ChannelQueue("wechatpay"), workflows.ChannelQueue("alipay"), workflows.ChannelQueue("stripe"),
	}
}

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

// Activities is what the queues' activities stand on.
type Activities struct {
	Books     *payment.Books
	Transfers *transfer.Service
	Acquiring *acquiring.Service
	Shares    *share.Service
	Refunds   *refund.Service
	Log       *zap.Logger
}

// Config is what a worker process runs on.
type Config struct {
	Client client.Client
	Queues []string
	Serves Activities
	Log    *zap.Logger
	// DatabaseConnections is the size of the engine's pool; no more database steps run at once.
	DatabaseConnections int
}

// stopTimeout lets running steps end when the process is asked to stop.
const stopTimeout = 20 * time.Second

// Run serves the queues until ctx is done, then lets running steps end. An engine that goes away while the workers start is
// waited for. It returns an error if it could not begin, or can no longer poll.
func Run(ctx context.Context, c Config) error {
	fatal := make(chan error, len(c.Queues))
	workers, err := start(c, fatal)
	for away(err) {
		c.Log.Warn("waiting for Temporal", zap.Error(err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(startAgain):
		}
		workers, err = start(c, fatal)
	}
	if err != nil {
		return err
	}
	defer stop(workers)
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return err
	}
}

// startAgain is the pause before the workers are started once more.
const startAgain = time.Second

// start starts all workers or none.
func start(c Config, fatal chan<- error) (workers []worker.Worker, err error) {
	for _, queue := range c.Queues {
		w := New(c.Client, queue, c.DatabaseConnections, func(err error) {
			fatal <- fmt.Errorf("queue %s: the worker gave up: %w", queue, err)
		})
		Register(w, queue, c.Serves)
		if err := w.Start(); err != nil {
			stop(workers)
			return nil, fmt.Errorf("start the worker of queue %s: %w", queue, err)
		}
		workers = append(workers, w)
	}
	return workers, nil
}

func stop(workers []worker.Worker) {
	for _, w := range workers {
		w.Stop()
	}
}

// away tells an engine that does not answer from one that refuses.
func away(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}

// participantCalls is how many external participants one process calls at once: they wait for others, not for the database,
// and a slow one must not hold up the rest.
const participantCalls = 200

// channelCalls is how many calls to one channel one process makes at once, and channelCallsPerSecond how many all processes
// together begin: below what the channels allow a provider.
const (
	channelCalls          = 100
	channelCallsPerSecond = 200
)

// New makes a worker without any registration. fatal is told when it can no longer poll.
func New(c client.Client, queue string, connections int, fatal func(error)) worker.Worker {
	scaling := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	activitiesAtOnce := max(1, connections/2-1)
	perSecond := 0.0
	switch {
	case queue == workflows.ParticipantsQueue:
		activitiesAtOnce = participantCalls
	case workflows.IsChannelQueue(queue):
		activitiesAtOnce, perSecond = channelCalls, channelCallsPerSecond
	}
	return worker.New(c, queue, worker.Options{
		// Two fixed pollers leave tasks in partitions that nobody polls: seconds of waiting under load.
		WorkflowTaskPollerBehavior: scaling,
		ActivityTaskPollerBehavior: scaling,
		// Steps that have no connection only time out. A process that serves all queues has half of its pool for the flows'
		// own steps, and the rest for the ledger queue and the re-drive.
		MaxConcurrentLocalActivityExecutionSize: max(1, connections/2),
		MaxConcurrentActivityExecutionSize:      activitiesAtOnce,
		// The steps of the payments queue run beside its flows; nothing is ever put on it as a task of its own.
		LocalActivityWorkerOnly: queue == workflows.PaymentsQueue,
		// Over all workers of the queue; each account has a limit of its own beside it (channel.Caller).
		TaskQueueActivitiesPerSecond: perSecond,
		OnFatalError:                 fatal,
		WorkerStopTimeout:            stopTimeout,
	})
}

// Register gives a queue's worker what it serves, under the names that histories hold.
func Register(w worker.Registry, queue string, serves Activities) {
	named := func(name string) activity.RegisterOptions { return activity.RegisterOptions{Name: name} }
	payments := &activities.Payments{Books: serves.Books}
	transfers := &activities.Transfers{Service: serves.Transfers, Log: serves.Log}
	shares := &activities.Shares{Service: serves.Shares}
	asking := &activities.Acquiring{Service: serves.Acquiring, Log: serves.Log}
	refunds := &activities.Refunds{Service: serves.Refunds, Fees: serves.Acquiring, Log: serves.Log}
	switch {
	case workflows.IsChannelQueue(queue):
		w.RegisterActivityWithOptions(asking.Prepay, named(workflows.PrepayActivity))
		w.RegisterActivityWithOptions(asking.Inquire, named(workflows.InquireActivity))
		w.RegisterActivityWithOptions(shares.Call, named(workflows.ShareCallActivity))
		w.RegisterActivityWithOptions(refunds.Advance, named(workflows.RefundAdvanceActivity))
		w.RegisterActivityWithOptions(refunds.AskAbout, named(workflows.AskAboutActivity))
		w.RegisterActivityWithOptions(shares.Collect, named(workflows.ShareCollectActivity))
		return
	case queue == workflows.ParticipantsQueue:
		w.RegisterActivityWithOptions(transfers.Call, named(workflows.ParticipantActivity))
		return
	case queue == workflows.PaymentsQueue:
		for name, flow := range Flows() {
			w.RegisterWorkflowWithOptions(flow, workflow.RegisterOptions{Name: name})
		}
	}
	// The short steps in the database: beside the flows of the payments queue, and on the ledger queue when they take longer.
	w.RegisterActivityWithOptions(payments.ApplyEvent, named(workflows.ApplyEventActivity))
	w.RegisterActivityWithOptions(transfers.Try, named(workflows.TransferTryActivity))
	w.RegisterActivityWithOptions(transfers.Decide, named(workflows.TransferDecideActivity))
	w.RegisterActivityWithOptions(transfers.Settle, named(workflows.TransferSettleActivity))
	w.RegisterActivityWithOptions(transfers.End, named(workflows.TransferEndActivity))
	w.RegisterActivityWithOptions(shares.Look, named(workflows.ShareLookActivity))
	w.RegisterActivityWithOptions(refunds.Look, named(workflows.RefundLookActivity))
	w.RegisterActivityWithOptions(refunds.Unknown, named(workflows.RefundUnknownActivity))
}

// Flows lists the workflows by the names that histories hold.
func Flows() map[string]any {
	return map[string]any{
		workflows.PaymentWorkflow:  workflows.Payment,
		workflows.EventWorkflow:    workflows.Event,
		workflows.TransferWorkflow: workflows.Transfer,
		workflows.PrepayWorkflow:   workflows.Prepay,
		workflows.InquiryWorkflow:  workflows.Inquiry,

		workflows.ProfitShareWorkflow:  workflows.ProfitShare,
		workflows.RefundWorkflow:       workflows.Refund,
		workflows.ShareReturnsWorkflow: workflows.ShareReturns,
	}
}
