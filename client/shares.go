package client

import (
	"context"
	"net/url"
	"time"
)

// ShareRequest asks to divide a payment. OutOrderNo names the sharing for ever. With nil receivers the payment is divided as
// was frozen at the sale; with an empty list, and Finish, its sharing is ended and nothing else.
type ShareRequest struct {
	OutOrderNo string          `json:"out_order_no"`
	Receivers  []ShareReceiver `json:"receivers,omitzero"`
	// MerchantRatio is the part that the merchant keeps, where receivers have ratios.
	MerchantRatio *int64 `json:"merchant_ratio,omitempty"`
	Finish        bool   `json:"finish,omitempty"`
}

// ShareReceiver is who gets a part: an amount or a ratio, all receivers alike.
type ShareReceiver struct {
	Account     string `json:"account"`
	Type        string `json:"type,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Amount      int64  `json:"amount,omitempty"`
	Ratio       int64  `json:"ratio,omitempty"`
}

// Share is a sharing as it stands.
type Share struct {
	OutOrderNo string     `json:"out_order_no"`
	OutTradeNo string     `json:"out_trade_no"`
	State      string     `json:"state"`
	Reason     string     `json:"reason"`
	Amount     int64      `json:"amount"`
	Currency   string     `json:"currency"`
	Base       int64      `json:"base"`
	Finish     bool       `json:"finish"`
	Receivers  []ShareLeg `json:"receivers"`
	// Returns is what refunds take back; not in lists.
	Returns    []ShareReturn `json:"returns"`
	Channel    string        `json:"channel"`
	Account    string        `json:"account"`
	ShareID    string        `json:"share_id"`
	CreatedAt  time.Time     `json:"created_at"`
	EndedAt    *time.Time    `json:"ended_at"`
	WorkflowID string        `json:"workflow_id"`
	TemporalUI string        `json:"temporal_ui"`
}

// ShareLeg is one receiver's part.
type ShareLeg struct {
	Account       string     `json:"account"`
	Type          string     `json:"type"`
	Name          string     `json:"name"`
	Description   string     `json:"description"`
	Ratio         int64      `json:"ratio"`
	Amount        int64      `json:"amount"`
	State         string     `json:"state"`
	Reason        string     `json:"reason"`
	TakenBack     int64      `json:"taken_back"`
	Receivable    int64      `json:"receivable"` // of a part that was paid after all: what could not be taken from the merchant
	Owed          int64      `json:"owed"`       // what of that is owed still
	Excess        int64      `json:"excess"`     // what of the part is beyond the payment
	LedgerAccount string     `json:"ledger_account"`
	JournalKey    string     `json:"journal_key"`
	EndedAt       *time.Time `json:"ended_at"`
}

// ShareReturn is what one refund takes back of one receiver.
type ShareReturn struct {
	OutRefundNo   string    `json:"out_refund_no"`
	Account       string    `json:"account"`
	Amount        int64     `json:"amount"`
	State         string    `json:"state"`
	Reason        string    `json:"reason"`
	OutReturnNo   string    `json:"out_return_no"`
	Collecting    bool      `json:"collecting"`
	LedgerAccount string    `json:"ledger_account"`
	CreatedAt     time.Time `json:"created_at"`
}

// CreateShare begins a sharing. Code of a refusal: out_order_no_reused, among others.
func (c *Client) CreateShare(ctx context.Context, outTradeNo string, r ShareRequest, options ...CallOption) (*Share, error) {
	return post[Share](ctx, c, "/v1/payments/"+url.PathEscape(outTradeNo)+"/shares", r, options)
}

// Share reads a sharing. Code of a refusal: share_not_found.
func (c *Client) Share(ctx context.Context, outOrderNo string) (*Share, error) {
	return get[Share](ctx, c, "/v1/shares/"+url.PathEscape(outOrderNo), nil)
}

// RetryShare takes a refused sharing up again, or has the channel asked about one that is under way. Codes of a refusal:
// share_not_refused, share_exceeds_left, among others.
func (c *Client) RetryShare(ctx context.Context, outOrderNo string, options ...CallOption) (*Share, error) {
	return post[Share](ctx, c, "/v1/shares/"+url.PathEscape(outOrderNo)+"/retry", struct{}{}, options)
}

// CollectShare has the channel asked for what the receivers of a sharing owe after refunds; account narrows it to one. Code of a
// refusal: nothing_owed.
func (c *Client) CollectShare(ctx context.Context, outOrderNo, account string, options ...CallOption) (*Share, error) {
	return post[Share](ctx, c, "/v1/shares/"+url.PathEscape(outOrderNo)+"/collect", map[string]string{"account": account}, options)
}
