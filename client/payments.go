package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// PaymentRequest asks for a payment. OutTradeNo is the merchant's own number, and names it for ever.
type PaymentRequest struct {
	OutTradeNo  string `json:"out_trade_no"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Description string `json:"description,omitempty"`
	// Channel, Account and Method say how it is to be paid; with a channel that can be asked the answer holds ChannelData.
	Channel        string          `json:"channel,omitempty"`
	Account        string          `json:"account,omitempty"`
	Method         string          `json:"method,omitempty"`
	ChannelOptions json.RawMessage `json:"channel_options,omitempty"`
	// ProfitSharing freezes how the payment will be divided.
	ProfitSharing    json.RawMessage `json:"profit_sharing,omitempty"`
	ExpiresInSeconds int64           `json:"expires_in_seconds,omitempty"`
	Items            []Item          `json:"items,omitempty"`
	RedemptionCode   bool            `json:"redemption_code,omitempty"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
}

// Item is a quantity of one sku.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// The states of a payment.
const (
	PaymentPending   = "PENDING"
	PaymentPaid      = "PAID"
	PaymentShipped   = "SHIPPED"
	PaymentCompleted = "COMPLETED"
	PaymentClosed    = "CLOSED"
)

// Payment is a payment as it stands.
type Payment struct {
	OutTradeNo       string          `json:"out_trade_no"`
	State            string          `json:"state"`
	Amount           int64           `json:"amount"`
	Currency         string          `json:"currency"`
	Description      string          `json:"description"`
	Channel          string          `json:"channel"`
	Account          string          `json:"account"`
	Method           string          `json:"method"`
	Metadata         json.RawMessage `json:"metadata"`
	Items            []Item          `json:"items"`
	RedemptionCode   string          `json:"redemption_code"`
	RefundState      string          `json:"refund_state"`
	RefundedAmount   int64           `json:"refunded_amount"`
	RefundPending    int64           `json:"refund_pending"`
	CloseReason      string          `json:"close_reason"`
	CreatedAt        time.Time       `json:"created_at"`
	ExpiresAt        time.Time       `json:"expires_at"`
	PaidAt           *time.Time      `json:"paid_at"`
	ShippedAt        *time.Time      `json:"shipped_at"`
	CompletedAt      *time.Time      `json:"completed_at"`
	ClosedAt         *time.Time      `json:"closed_at"`
	PrepayState      string          `json:"prepay_state"`
	PrepayFailure    string          `json:"prepay_failure"`
	ChannelData      json.RawMessage `json:"channel_data"`
	ProfitSharing    json.RawMessage `json:"profit_sharing"`
	CloseRequestedAt *time.Time      `json:"close_requested_at"`
	WorkflowID       string          `json:"workflow_id"`
	TemporalUI       string          `json:"temporal_ui"`
	// Events and JournalKeys are there for one payment, not in a list.
	Events      []Event  `json:"events"`
	JournalKeys []string `json:"journal_keys"`
}

// CreatePayment makes a payment, or finds the one that the same request made. Codes of refusals: out_trade_no_reused,
// out_of_stock, sku_not_found, channel_refused.
func (c *Client) CreatePayment(ctx context.Context, r PaymentRequest, options ...CallOption) (*Payment, error) {
	return post[Payment](ctx, c, "/v1/payments", r, options)
}

// Payment reads a payment. Code of a refusal: payment_not_found.
func (c *Client) Payment(ctx context.Context, outTradeNo string) (*Payment, error) {
	return get[Payment](ctx, c, "/v1/payments/"+url.PathEscape(outTradeNo), nil)
}

// PaymentFilter narrows a list; zero values do not.
type PaymentFilter struct {
	State, Channel string
	From, To       time.Time // of CreatedAt: from inclusive, to exclusive
}

// Payments lists payments, newest first, page by page as they are asked for.
func (c *Client) Payments(ctx context.Context, f PaymentFilter) iter.Seq2[*Payment, error] {
	query := url.Values{}
	set(query, "state", f.State)
	set(query, "channel", f.Channel)
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return list[Payment](ctx, c, "/v1/payments", query)
}

// ClosePayment closes a payment that nobody has paid; one that was announced to its channel is closed there first, and then
// CloseRequestedAt is set. Code of a refusal: already_paid.
func (c *Client) ClosePayment(ctx context.Context, outTradeNo string, options ...CallOption) (*Payment, error) {
	return post[Payment](ctx, c, "/v1/payments/"+url.PathEscape(outTradeNo)+"/close", nil, options)
}

// ShipPayment marks a paid payment as shipped. Code of a refusal: illegal_move.
func (c *Client) ShipPayment(ctx context.Context, outTradeNo string, options ...CallOption) (*Payment, error) {
	return post[Payment](ctx, c, "/v1/payments/"+url.PathEscape(outTradeNo)+"/ship", nil, options)
}

// CompletePayment ends a shipped payment. Code of a refusal: illegal_move.
func (c *Client) CompletePayment(ctx context.Context, outTradeNo string, options ...CallOption) (*Payment, error) {
	return post[Payment](ctx, c, "/v1/payments/"+url.PathEscape(outTradeNo)+"/complete", nil, options)
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	var answer T
	if err := c.get(ctx, path, query, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

func post[T any](ctx context.Context, c *Client, path string, body any, options []CallOption) (*T, error) {
	var answer T
	if err := c.post(ctx, path, body, &answer, options); err != nil {
		return nil, err
	}
	return &answer, nil
}

// page is one page of a list.
type page[T any] struct {
	Items      []*T   `json:"items"`
	NextCursor string `json:"next_cursor"`
}

// list asks for pages as long as somebody reads on. An error ends it.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[*T, error] {
	query.Set("limit", strconv.Itoa(pageSize))
	return func(yield func(*T, error) bool) {
		query := clone(query)
		for {
			p, err := get[page[T]](ctx, c, path, query)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if p.NextCursor == "" {
				return
			}
			query.Set("cursor", p.NextCursor)
		}
	}
}

const pageSize = 100

func clone(v url.Values) url.Values {
	c := url.Values{}
	for name, values := range v {
		c[name] = append([]string{}, values...)
	}
	return c
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
