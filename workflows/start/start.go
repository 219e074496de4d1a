// Package start begins and wakes flows: the one place that knows which id, queue and reuse policy each has.
package start

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/workflows"
)

// Starter implements [payment.Driver] on a Temporal client.
type Starter struct {
	client client.Client

	mu    sync.Mutex
	ready atomic.Bool
}

// New makes a starter.
func New(c client.Client) *Starter { return &Starter{client: c} }

// eager starts a flow whose first task may come with the answer. Before the first one the client learns, alone, what its server
// can do: the SDK reads that without a lock when it starts a flow eagerly, while another call may still be writing it.
func (s *Starter) eager(ctx context.Context, options client.StartWorkflowOptions, workflow string, input any) (client.WorkflowRun, error) {
	if err := s.learn(ctx); err != nil {
		return nil, err
	}
	options.EnableEagerStart = true
	return s.client.ExecuteWorkflow(ctx, options, workflow, input)
}

func (s *Starter) learn(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready.Load() {
		return nil
	}
	if _, err := s.client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("learn what the engine can do: %w", err)
	}
	s.ready.Store(true)
	return nil
}

// Deliver wakes the order's flow, or starts the event's own once the order's has ended. That a flow of this id has run
// before is an answer, not an error: the database decides what is still to be done.
func (s *Starter) Deliver(ctx context.Context, d payment.Delivery) error {
	if d.Flow != (payment.Flow{}) && !d.Alone {
		delivered, err := s.wakeMatter(ctx, d)
		if err != nil || delivered {
			return err
		}
	}
	if d.OrderState == payment.Pending && !d.Alone {
		started, err := s.wake(ctx, d)
		if err != nil || started {
			return err
		}
		// Its flow has ended since the row was read, or was ended: the event goes its own way.
	}
	return s.startEvent(ctx, d)
}

// wake starts the order's flow with its event, or signals the one that runs. With API and worker in one process the first
// task comes with the answer to the start (eager start); elsewhere the option does nothing.
func (s *Starter) wake(ctx context.Context, d payment.Delivery) (delivered bool, err error) {
	options := s.options(d, workflows.PaymentID(d.TenantID, d.OutTradeNo))
	options.StaticSummary = "Payment " + d.OutTradeNo + amountText(d) + " by " + d.Channel
	// A flow that runs has another event: it must be told of this one.
	options.WorkflowIDConflictPolicy = enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	_, err = s.eager(ctx, options, workflows.PaymentWorkflow,
		workflows.PaymentInput{Tenant: d.TenantID, OutTradeNo: d.OutTradeNo, EventID: d.EventID})
	if err == nil {
		return true, nil
	}
	if !alreadyStarted(err) {
		return false, fmt.Errorf("start %s: %w", options.ID, err)
	}
	err = s.client.SignalWorkflow(ctx, options.ID, "", workflows.WakeSignal, workflows.Wake{EventID: d.EventID})
	var ended *serviceerror.NotFound
	if errors.As(err, &ended) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wake %s: %w", options.ID, err)
	}
	return true, nil
}

func (s *Starter) startEvent(ctx context.Context, d payment.Delivery) error {
	options := s.indexed(d, workflows.EventID(d.AccountID, d.EventKey))
	options.StaticSummary = fmt.Sprintf("%s for %s, which is %s%s", d.Kind, d.OutTradeNo, d.OrderState, amountText(d))
	if d.OrderState == "" {
		options.StaticSummary = fmt.Sprintf("%s of %s%s", d.Kind, d.OutTradeNo, amountText(d))
	}
	_, err := s.client.ExecuteWorkflow(ctx, options, workflows.EventWorkflow, workflows.EventInput{EventID: d.EventID})
	if err != nil && !alreadyStarted(err) {
		return fmt.Errorf("start %s: %w", options.ID, err)
	}
	return nil
}

// options carry the reuse policy explicitly: the engine's default starts a second flow for a late duplicate. Who has read
// an unsettled row may start a flow that was ended from outside again; a running one is always used as it is.
func (s *Starter) options(d payment.Delivery, id string) client.StartWorkflowOptions {
	reuse := enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	if d.Resume {
		reuse = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	return client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                workflows.PaymentsQueue,
		WorkflowIDReusePolicy:    reuse,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}
}

// indexed are the options of a rare flow, which the engine's index finds by what it is about.
func (s *Starter) indexed(d payment.Delivery, id string) client.StartWorkflowOptions {
	options := s.options(d, id)
	options.TypedSearchAttributes = temporal.NewSearchAttributes(
		workflows.TenantAttribute.ValueSet(d.TenantID),
		workflows.ChannelAttribute.ValueSet(d.Channel),
		workflows.OrderAttribute.ValueSet(d.OutTradeNo),
		workflows.StateAttribute.ValueSet(string(d.OrderState)),
	)
	return options
}

// StartTransfer implements [transfer.Driver]. With API and worker in one process the first task comes with the answer to
// the start (eager start); elsewhere the option does nothing. No search attributes, as with payments.
func (s *Starter) StartTransfer(ctx context.Context, t transfer.Transfer, resume bool) (run string, err error) {
	reuse := enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	if resume {
		reuse = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	options := client.StartWorkflowOptions{
		ID:                       workflows.TransferID(t.GID),
		TaskQueue:                workflows.PaymentsQueue,
		WorkflowIDReusePolicy:    reuse,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            fmt.Sprintf("Transfer %d", t.ID),
	}
	flow, err := s.eager(ctx, options, workflows.TransferWorkflow, workflows.TransferInput{TransferID: t.ID, Tried: t.Tried})
	if alreadyStarted(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("start %s: %w", options.ID, err)
	}
	return flow.GetRunID(), nil
}

// StartInquiry implements [acquiring.Driver].
func (s *Starter) StartInquiry(ctx context.Context, o acquiring.Ref) error {
	options := orderOptions(o, workflows.InquiryID(o.TenantID, o.OutTradeNo))
	options.StaticSummary = "Ask " + o.Channel + " about " + o.OutTradeNo
	_, err := s.client.ExecuteWorkflow(ctx, options, workflows.InquiryWorkflow, workflows.OrderInput{PaymentID: o.PaymentID, Channel: o.Channel})
	if err != nil {
		return fmt.Errorf("start %s: %w", options.ID, err)
	}
	return nil
}

// Prepay announces an order to its channel and waits until that has ended, or ctx is done. The order's row has the result.
func (s *Starter) Prepay(ctx context.Context, o acquiring.Ref) error {
	options := orderOptions(o, workflows.PrepayID(o.TenantID, o.OutTradeNo))
	options.StaticSummary = "Announce " + o.OutTradeNo + " to " + o.Channel
	run, err := s.client.ExecuteWorkflow(ctx, options, workflows.PrepayWorkflow, workflows.OrderInput{PaymentID: o.PaymentID, Channel: o.Channel})
	if err != nil {
		return fmt.Errorf("start %s: %w", options.ID, err)
	}
	return run.Get(ctx, nil)
}

// orderOptions let a flow run again once it has ended: who starts it has read a row that is not settled, and asking twice
// changes nothing.
func orderOptions(o acquiring.Ref, id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                workflows.PaymentsQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.TenantAttribute.ValueSet(o.TenantID),
			workflows.ChannelAttribute.ValueSet(o.Channel),
			workflows.OrderAttribute.ValueSet(o.OutTradeNo),
		),
	}
}

// AwaitTransfer waits until a transfer's flow ends, or ctx does.
func (s *Starter) AwaitTransfer(ctx context.Context, t transfer.Transfer) error {
	// The client would describe a run whose id is not known first; its history needs no more than the workflow's id.
	history := s.client.GetWorkflowHistory(ctx, workflows.TransferID(t.GID), t.RunID, true, enums.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	if !history.HasNext() {
		return ctx.Err()
	}
	_, err := history.Next()
	return err
}

func alreadyStarted(err error) bool {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	return errors.As(err, &started)
}

func amountText(d payment.Delivery) string {
	if d.Amount == nil || d.Currency == nil {
		return ""
	}
	return ": " + money.Format(*d.Amount, *d.Currency)
}
