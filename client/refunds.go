package client

import (
	"context"
	"net/url"
	"time"
)

// RefundRequest asks to give a part of a payment back, or all of it. OutRefundNo names the refund for ever.
type RefundRequest struct {
	OutRefundNo string `json:"out_refund_no"`
	Amount      int64  `json:"amount"`
	Reason      string `json:"reason,omitempty"`
}

// The states of a refund. UNKNOWN is not failed: the channel will tell.
const (
	RefundPending   = "PENDING"
	RefundUnknown   = "UNKNOWN"
	RefundSucceeded = "SUCCEEDED"
	RefundFailed    = "FAILED"
)

// Refund is a refund as it stands.
type Refund struct {
	OutRefundNo   string     `json:"out_refund_no"`
	OutTradeNo    string     `json:"out_trade_no"`
	State         string     `json:"state"`
	Amount        int64      `json:"amount"`
	Currency      string     `json:"currency"`
	Reason        string     `json:"reason"`
	Origin        string     `json:"origin"`
	Channel       string     `json:"channel"`
	Account       string     `json:"account"`
	TransactionID string     `json:"transaction_id"`
	RefundID      string     `json:"refund_id"`
	EventID       *int64     `json:"event_id"`
	Abnormal      bool       `json:"abnormal"`
	Failure       string     `json:"failure"`
	Fee           *int64     `json:"fee"`
	Awaited       int64      `json:"awaited"`
	Owed          int64      `json:"owed"`
	Receivable    int64      `json:"receivable"`
	Excess        int64      `json:"excess"`
	JournalKeys   []string   `json:"journal_keys"`
	CreatedAt     time.Time  `json:"created_at"`
	StateSince    time.Time  `json:"state_since"`
	EndedAt       *time.Time `json:"ended_at"`
	WorkflowID    string     `json:"workflow_id"`
	TemporalUI    string     `json:"temporal_ui"`
}

// CreateRefund begins a refund; it needs an API key with the scope refund. Codes of refusals: refund_exceeds_captured,
// out_refund_no_reused, payment_not_paid.
func (c *Client) CreateRefund(ctx context.Context, outTradeNo string, r RefundRequest, options ...CallOption) (*Refund, error) {
	return post[Refund](ctx, c, "/v1/payments/"+url.PathEscape(outTradeNo)+"/refunds", r, options)
}

// Refund reads a refund. Code of a refusal: refund_not_found.
func (c *Client) Refund(ctx context.Context, outRefundNo string) (*Refund, error) {
	return get[Refund](ctx, c, "/v1/refunds/"+url.PathEscape(outRefundNo), nil)
}
