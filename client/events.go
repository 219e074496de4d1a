package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// Event is what a channel reported, and what became of it.
type Event struct {
	ID            int64      `json:"id"`
	EventKey      string     `json:"event_key"`
	Channel       string     `json:"channel"`
	Account       string     `json:"account"`
	Kind          string     `json:"kind"`
	OutTradeNo    string     `json:"out_trade_no"`
	TransactionID string     `json:"transaction_id"`
	Amount        *int64     `json:"amount"`
	Currency      *string    `json:"currency"`
	PayerAmount   *int64     `json:"payer_amount"`
	Fee           *int64     `json:"fee"`
	OutNo         string     `json:"out_no"`
	Receiver      string     `json:"receiver"`
	LegState      string     `json:"leg_state"`
	OccurredAt    *time.Time `json:"occurred_at"`
	State         string     `json:"state"`
	Outcome       *string    `json:"outcome"`
	Reason        string     `json:"reason"`
	ConflictsWith *int64     `json:"conflicts_with"`
	JournalKey    string     `json:"journal_key"`
	ReceivedAt    time.Time  `json:"received_at"`
	StateSince    time.Time  `json:"state_since"`
}

// The states of an event. A parked one waits for its order, or for an operator.
const (
	EventReceived = "RECEIVED"
	EventDone     = "DONE"
	EventParked   = "PARKED"
	EventIgnored  = "IGNORED"
)

// EventFilter narrows a list; zero values do not.
type EventFilter struct{ State, OutTradeNo string }

// Events lists what channels reported, newest first, page by page as it is asked for.
func (c *Client) Events(ctx context.Context, f EventFilter) iter.Seq2[*Event, error] {
	query := url.Values{}
	set(query, "state", f.State)
	set(query, "out_trade_no", f.OutTradeNo)
	return list[Event](ctx, c, "/v1/events", query)
}

// Event reads an event. Code of a refusal: event_not_found.
func (c *Client) Event(ctx context.Context, id int64) (*Event, error) {
	return get[Event](ctx, c, eventPath(id), nil)
}

// ReplayEvent has an event judged again, as if it had just come.
func (c *Client) ReplayEvent(ctx context.Context, id int64, options ...CallOption) (*Event, error) {
	return post[Event](ctx, c, eventPath(id)+"/replay", nil, options)
}

// BookEventToSuspense takes a parked event's money in without an order. Codes of refusals: event_not_parked, nothing_to_book,
// already_booked.
func (c *Client) BookEventToSuspense(ctx context.Context, id int64, reason string, options ...CallOption) (*Event, error) {
	return post[Event](ctx, c, eventPath(id)+"/suspense", map[string]string{"reason": reason}, options)
}

// RejectEvent ends a parked event without any effect. Code of a refusal: event_not_parked.
func (c *Client) RejectEvent(ctx context.Context, id int64, reason string, options ...CallOption) (*Event, error) {
	return post[Event](ctx, c, eventPath(id)+"/reject", map[string]string{"reason": reason}, options)
}

func eventPath(id int64) string { return "/v1/events/" + strconv.FormatInt(id, 10) }
