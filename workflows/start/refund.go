package start

import (
	"context"
	"fmt"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/workflows"
)

// wakeMatter tells the flow of another matter than a payment of an event; delivered is false where its flow has ended.
func (s *Starter) wakeMatter(ctx context.Context, d payment.Delivery) (delivered bool, err error) {
	switch d.Kind {
	case channel.RefundSuccess, channel.RefundFailed, channel.RefundAbnormal, channel.RefundHint:
		r := refund.Ref{RefundID: d.Flow.Row, TenantID: d.TenantID, OutRefundNo: d.Flow.Number, OutTradeNo: d.OutTradeNo, Channel: d.Channel, State: refund.Pending}
		if d.Amount != nil && d.Currency != nil {
			r.Amount, r.Currency = *d.Amount, *d.Currency
		}
		return s.wakeRefund(ctx, r, workflows.Wake{EventID: d.EventID}, d.Resume)
	case channel.ShareResult:
		return s.wakeShare(ctx, d)
	default:
		return false, nil
	}
}

// StartRefund implements [refund.Driver].
func (s *Starter) StartRefund(ctx context.Context, r refund.Ref, resume bool) error {
	options := refundOptions(r, resume)
	_, err := s.client.ExecuteWorkflow(ctx, options, workflows.RefundWorkflow, workflows.RefundInput{RefundID: r.RefundID, Channel: r.Channel})
	if err != nil && !alreadyStarted(err) {
		return fmt.Errorf("start %s: %w", options.ID, err)
	}
	return nil
}

// WakeRefund implements [refund.Driver]: a signal that names no event.
func (s *Starter) WakeRefund(ctx context.Context, r refund.Ref) error {
	_, err := s.wakeRefund(ctx, r, workflows.Wake{}, true)
	return err
}

func (s *Starter) wakeRefund(ctx context.Context, r refund.Ref, wake workflows.Wake, resume bool) (delivered bool, err error) {
	options := refundOptions(r, resume)
	_, err = s.client.SignalWithStartWorkflow(ctx, options.ID, workflows.WakeSignal, wake, options, workflows.RefundWorkflow,
		workflows.RefundInput{RefundID: r.RefundID, Channel: r.Channel})
	if alreadyStarted(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wake %s: %w", options.ID, err)
	}
	return true, nil
}

func refundOptions(r refund.Ref, resume bool) client.StartWorkflowOptions {
	reuse := enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	if resume {
		reuse = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	summary := "Refund " + r.OutRefundNo + " of " + r.OutTradeNo
	if r.Currency != "" {
		summary += ": " + money.Format(r.Amount, r.Currency)
	}
	return client.StartWorkflowOptions{
		ID:                       workflows.RefundID(r.TenantID, r.OutRefundNo),
		TaskQueue:                workflows.PaymentsQueue,
		WorkflowIDReusePolicy:    reuse,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            summary,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.TenantAttribute.ValueSet(r.TenantID),
			workflows.ChannelAttribute.ValueSet(r.Channel),
			workflows.OrderAttribute.ValueSet(r.OutTradeNo),
			workflows.StateAttribute.ValueSet(string(r.State)),
		),
	}
}
