package client

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// Account is an account of the tenant's ledger. Available is Balance - Held.
type Account struct {
	Code          string    `json:"code"`
	Currency      string    `json:"currency"`
	Balance       int64     `json:"balance"`
	Held          int64     `json:"held"`
	Available     int64     `json:"available"`
	Version       int64     `json:"version"`
	AllowNegative bool      `json:"allow_negative"`
	CreatedAt     time.Time `json:"created_at"`
}

// AccountRequest asks for an account of the merchant's own.
type AccountRequest struct {
	Code          string `json:"code"`
	Currency      string `json:"currency"`
	AllowNegative bool   `json:"allow_negative,omitempty"`
}

// OpenAccount opens an account, or finds it. Codes of refusals: account_exists, account_reserved.
func (c *Client) OpenAccount(ctx context.Context, r AccountRequest, options ...CallOption) (*Account, error) {
	return post[Account](ctx, c, "/v1/accounts", r, options)
}

// Account reads an account, such as merchant; an empty currency is the tenant's own. Code of a refusal: account_not_found.
func (c *Client) Account(ctx context.Context, code, currency string) (*Account, error) {
	query := url.Values{}
	set(query, "currency", currency)
	return get[Account](ctx, c, "/v1/accounts/"+url.PathEscape(code), query)
}

// Entry is a line of an account's statement.
type Entry struct {
	JournalKey   string    `json:"journal_key"`
	Kind         string    `json:"kind"`
	Amount       int64     `json:"amount"`
	BalanceAfter int64     `json:"balance_after"`
	Version      int64     `json:"version"`
	PostedAt     time.Time `json:"posted_at"`
}

// Entries reads an account's statement, newest first, page by page as it is asked for.
func (c *Client) Entries(ctx context.Context, code, currency string) iter.Seq2[*Entry, error] {
	query := url.Values{}
	set(query, "currency", currency)
	return list[Entry](ctx, c, "/v1/accounts/"+url.PathEscape(code)+"/entries", query)
}

// Journal books one fact between accounts, under a key that is its own for ever. Its lines sum to zero in each currency.
type Journal struct {
	Key   string `json:"key"`
	Lines []Line `json:"lines"`
}

// Line moves an amount to (positive) or from (negative) an account.
type Line struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	Amount   int64  `json:"amount"`
}

// The states of a journal's result.
const (
	JournalPosted   = "POSTED"
	JournalRepeated = "REPEATED" // posted before
	JournalRefused  = "REFUSED"  // Code says why
	JournalUnknown  = "UNKNOWN"  // post it again: its key answers
)

// JournalResult is what became of a journal.
type JournalResult struct {
	Key    string `json:"key"`
	State  string `json:"state"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// PostJournals books up to 500 journals, each for itself; the results stand in their order.
func (c *Client) PostJournals(ctx context.Context, journals []Journal, options ...CallOption) ([]JournalResult, error) {
	var answer struct {
		Items []JournalResult `json:"items"`
	}
	err := c.post(ctx, "/v1/journals", map[string]any{"journals": journals}, &answer, options)
	return answer.Items, err
}
