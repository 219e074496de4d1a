package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// TransferRequest moves an amount from one account to another, or whatever Participants say, or both, together or not at all.
type TransferRequest struct {
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Reference is the merchant's own name of the transfer, for ever; without one its name is the [Key] of the call.
	Reference string `json:"reference,omitempty"`
	// Mode is direct or tcc; empty is as the participants allow.
	Mode         string        `json:"mode,omitempty"`
	Participants []Participant `json:"participants,omitempty"`
}

// Participant is one leg of a transfer.
type Participant struct {
	// Type is ledger (Account, Amount, Currency), stock (SKU, Quantity), or http (Participant, Body).
	Type        string          `json:"type"`
	Account     string          `json:"account,omitempty"`
	Amount      int64           `json:"amount,omitempty"`
	Currency    string          `json:"currency,omitempty"`
	SKU         string          `json:"sku,omitempty"`
	Quantity    int64           `json:"quantity,omitempty"`
	Participant string          `json:"participant,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`
}

// The states of a transfer. After CONFIRMING nothing is taken back.
const (
	TransferTrying     = "TRYING"
	TransferConfirming = "CONFIRMING"
	TransferCancelling = "CANCELLING"
	TransferConfirmed  = "CONFIRMED"
	TransferCancelled  = "CANCELLED"
)

// Transfer is a transfer as it stands.
type Transfer struct {
	ID         int64         `json:"id"`
	State      string        `json:"state"`
	Mode       string        `json:"mode"`
	Reference  string        `json:"reference"`
	Failure    string        `json:"failure"`
	Legs       []Participant `json:"legs"`
	CreatedAt  time.Time     `json:"created_at"`
	DecidedAt  *time.Time    `json:"decided_at"`
	EndedAt    *time.Time    `json:"ended_at"`
	WorkflowID string        `json:"workflow_id"`
	TemporalUI string        `json:"temporal_ui"`
}

// CreateTransfer carries a transfer out, or begins it: one that is not decided within 3 s comes back as TRYING. A transfer that
// is decided against is an [Error] with its failure as code, such as insufficient_funds: nothing has moved, and it stays
// decided under its name.
func (c *Client) CreateTransfer(ctx context.Context, r TransferRequest, options ...CallOption) (*Transfer, error) {
	return post[Transfer](ctx, c, "/v1/transfers", r, options)
}

// Transfer reads a transfer. Code of a refusal: transfer_not_found.
func (c *Client) Transfer(ctx context.Context, id int64) (*Transfer, error) {
	return get[Transfer](ctx, c, "/v1/transfers/"+strconv.FormatInt(id, 10), nil)
}
