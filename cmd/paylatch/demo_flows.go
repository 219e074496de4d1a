package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/paylatch/paylatch/internal/money"
)

// playFlows has one order paid at the simulated WeChat Pay and shared among two receivers, and a second one refunded: the
// merchant's balance stays what the first part of the demo made it.
func playFlows(ctx context.Context, out io.Writer, info devInfo) error {
	m := &merchant{base: info.HTTP, key: info.APIKey}
	stamp := time.Now().UTC().Format("0102-150405")
	shared, refunded := "demo-share-"+stamp, "demo-refund-"+stamp
	if err := m.payAtAcquirer(ctx, info, shared, map[string]any{
		"receivers": []map[string]any{
			{"type": "MERCHANT_ID", "account": "1900000109", "ratio": 30}, {"type": "MERCHANT_ID", "account": "1900000110", "ratio": 70},
		},
	}); err != nil {
		return err
	}
	share := "share-" + stamp
	if err := m.call(ctx, http.MethodPost, "/v1/payments/"+shared+"/shares", map[string]any{"out_order_no": share, "finish": true}, &struct{}{}); err != nil {
		return err
	}
	var shareEnd struct {
		State     string     `json:"state"`
		EndedAt   *time.Time `json:"ended_at"`
		Receivers []struct {
			Account string `json:"account"`
			Amount  int64  `json:"amount"`
			State   string `json:"state"`
		} `json:"receivers"`
	}
	if err := m.await(ctx, "/v1/shares/"+share, &shareEnd, func() bool { return shareEnd.EndedAt != nil }); err != nil {
		return fmt.Errorf("sharing %s is still %s: %w", share, shareEnd.State, err)
	}
	fmt.Fprintf(out, "  sharing        %s of %s at the simulated WeChat Pay: %s\n", share, money.Format(demoAmount, demoCurrency), shareEnd.State)
	for _, r := range shareEnd.Receivers {
		fmt.Fprintf(out, "                   %s to receiver %s: %s\n", money.Format(r.Amount, demoCurrency), r.Account, r.State)
	}

	if err := m.payAtAcquirer(ctx, info, refunded, nil); err != nil {
		return err
	}
	refund := "refund-" + stamp
	if err := m.call(ctx, http.MethodPost, "/v1/payments/"+refunded+"/refunds", map[string]any{
		"out_refund_no": refund, "amount": demoAmount, "reason": "one page was blank",
	}, &struct{}{}); err != nil {
		return err
	}
	var refundEnd struct {
		State string `json:"state"`
	}
	if err := m.await(ctx, "/v1/refunds/"+refund, &refundEnd, func() bool { return refundEnd.State == "SUCCEEDED" || refundEnd.State == "FAILED" }); err != nil {
		return fmt.Errorf("refund %s is still %s: %w", refund, refundEnd.State, err)
	}
	fmt.Fprintf(out, "  refund         %s: %s at the simulated WeChat Pay: %s\n\n", refund,
		money.Format(demoAmount, demoCurrency), refundEnd.State)
	return nil
}

// payAtAcquirer creates an order at the simulated WeChat Pay, and has its payer pay it there.
func (m *merchant) payAtAcquirer(ctx context.Context, info devInfo, order string, sharing map[string]any) error {
	body := map[string]any{"out_trade_no": order, "amount": demoAmount, "currency": demoCurrency, "description": "one book", "channel": "wechatpay"}
	if sharing != nil {
		body["profit_sharing"] = sharing
	}
	var made struct {
		PrepayState string `json:"prepay_state"`
	}
	for made.PrepayState != "READY" {
		if err := m.call(ctx, http.MethodPost, "/v1/payments", body, &made); err != nil {
			return err
		}
	}
	pays := simulatorFlags{Simulator: info.Simulator, Channel: "wechatpay"}
	if err := pays.call(ctx, http.MethodPost, "/orders/"+url.PathEscape(order)+"/pay", nil); err != nil {
		return err
	}
	_, err := m.awaitPaid(ctx, order)
	return err
}

// await reads a resource until it is as it shall be.
func (m *merchant) await(ctx context.Context, path string, into any, done func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := m.call(ctx, http.MethodGet, path, nil, into); err != nil || done() {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
