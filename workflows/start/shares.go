package start

import (
	"context"
	"fmt"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/workflows"
)

// StartShare implements [share.Driver].
func (s *Starter) StartShare(ctx context.Context, sh share.Share, resume bool) error {
	options := shareOptions(sh, resume)
	_, err := s.client.ExecuteWorkflow(ctx, options, workflows.ProfitShareWorkflow, workflows.ShareInput{ShareID: sh.ID})
	if err != nil && !alreadyStarted(err) {
		return fmt.Errorf("start %s: %w", options.ID, err)
	}
	return nil
}

// AskShare implements [share.Driver].
func (s *Starter) AskShare(ctx context.Context, sh share.Share) error {
	options := shareOptions(sh, true)
	_, err := s.client.SignalWithStartWorkflow(ctx, options.ID, workflows.WakeSignal, workflows.Wake{}, options,
		workflows.ProfitShareWorkflow, workflows.ShareInput{ShareID: sh.ID})
	if err != nil {
		return fmt.Errorf("wake %s: %w", options.ID, err)
	}
	return nil
}

// StartReturns implements [share.Driver].
func (s *Starter) StartReturns(ctx context.Context, sh share.Share) error {
	options := shareOptions(sh, true)
	options.ID = workflows.ShareReturnsID(sh.TenantID, sh.OutOrderNo)
	options.StaticSummary = "Ask for what is owed of " + sh.OutOrderNo
	_, err := s.client.ExecuteWorkflow(ctx, options, workflows.ShareReturnsWorkflow, workflows.ReturnsInput{ShareID: sh.ID, Channel: sh.Channel})
	if err != nil {
		return fmt.Errorf("start %s: %w", options.ID, err)
	}
	return nil
}

func shareOptions(sh share.Share, resume bool) client.StartWorkflowOptions {
	reuse := enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	if resume {
		reuse = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	return client.StartWorkflowOptions{
		ID:                       workflows.ShareID(sh.TenantID, sh.OutOrderNo),
		TaskQueue:                workflows.PaymentsQueue,
		WorkflowIDReusePolicy:    reuse,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "Share " + sh.OutTradeNo + " as " + sh.OutOrderNo,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.TenantAttribute.ValueSet(sh.TenantID),
			workflows.ChannelAttribute.ValueSet(sh.Channel),
			workflows.OrderAttribute.ValueSet(sh.OutTradeNo),
			workflows.StateAttribute.ValueSet(string(sh.State)),
		),
	}
}

// wakeShare hands a result to the sharing's flow; false where that has ended, and the event goes its own way.
func (s *Starter) wakeShare(ctx context.Context, d payment.Delivery) (delivered bool, err error) {
	options := s.indexed(d, workflows.ShareID(d.TenantID, d.Flow.Number))
	_, err = s.client.SignalWithStartWorkflow(ctx, options.ID, workflows.WakeSignal, workflows.Wake{EventID: d.EventID},
		options, workflows.ProfitShareWorkflow, workflows.ShareInput{ShareID: d.Flow.Row})
	if alreadyStarted(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wake %s: %w", options.ID, err)
	}
	return true, nil
}
