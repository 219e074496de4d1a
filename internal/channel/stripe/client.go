package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
)

// client makes the calls of one account: form-encoded requests, JSON replies.
type client struct {
	base   *url.URL
	key    string
	caller *channel.Caller
}

// get asks, and gives the reply as it came.
func (c *client) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	req, err := c.request(ctx, http.MethodGet, path, query)
	if err != nil {
		return nil, err
	}
	return c.do(req)
}

// post does something. The idempotency key is made of our number; it is empty for what can happen only once anyway, and
// whose refusal must not be remembered.
func (c *client) post(ctx context.Context, path string, form url.Values, idempotencyKey string) ([]byte, error) {
	req, err := c.request(ctx, http.MethodPost, path, form)
	if err != nil {
		return nil, err
	}
	if idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", idempotencyKey)
	}
	return c.do(req)
}

func (c *client) request(ctx context.Context, method, path string, values url.Values) (*http.Request, error) {
	target := *c.base
	target.Path += path
	var body io.Reader
	if method == http.MethodGet {
		target.RawQuery = values.Encode()
	} else {
		body = strings.NewReader(values.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Stripe-Version", APIVersion)
	req.Header.Set("User-Agent", "paylatch")
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, nil
}

func (c *client) do(req *http.Request) ([]byte, error) {
	reply, err := c.caller.Do(req)
	if err != nil {
		return nil, err
	}
	if reply.Status != http.StatusOK {
		return nil, failureOf(reply)
	}
	var h header
	if err := json.Unmarshal(reply.Body, &h); err != nil || h.Object == "" {
		return nil, errors.New("the reply of Stripe cannot be read: whether it was done is unknown")
	}
	return reply.Body, nil
}

// failure is an answer of Stripe's that is no success (docs.stripe.com/api/errors).
type failure struct {
	Status    int
	RequestID string
	// Replayed says that this is the answer that the idempotency key keeps: the same call will get it again.
	Replayed bool
	Type     string `json:"type"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Decline  string `json:"decline_code"`
}

func (f *failure) Error() string {
	text := fmt.Sprintf("Stripe answers with status %d", f.Status)
	switch f.Status {
	case http.StatusUnauthorized:
		return text + ": it does not take the secret_key" // its message quotes a part of the key
	case http.StatusForbidden:
		return text + ": the secret_key may not do this; give the restricted key that permission"
	}
	if f.Code != "" || f.Type != "" {
		text += ": " + f.code()
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	if f.RequestID != "" {
		text += " (" + f.RequestID + ")"
	}
	return text
}

func (f *failure) code() string {
	for _, code := range []string{f.Decline, f.Code, f.Type} {
		if code != "" {
			return code
		}
	}
	return "unknown"
}

// failureOf tells a definite no from all else. Definite is only what Stripe says of the request itself, with 400, 402 or 404:
// it was looked at and not done. All else may be done, or may be done on the next try:
//   - 401 and 403 are about our key, and right again once that is;
//   - 409 (the key is in use by a call under way, a lock), 424 and 429 pass;
//   - idempotency_error says that our number was used with other parameters, whose fate this answer does not tell;
//   - 500 and above are "indeterminate" by Stripe's own word.
//
// Error: [*channel.Rejection], or a [*failure].
func failureOf(reply channel.Reply) error {
	f := failure{}
	var envelope struct {
		Error *failure `json:"error"`
	}
	if err := json.Unmarshal(reply.Body, &envelope); err == nil && envelope.Error != nil {
		f = *envelope.Error
	}
	f.Status, f.RequestID = reply.Status, reply.Header.Get("Request-Id")
	f.Replayed = reply.Header.Get("Idempotent-Replayed") == "true"
	about := f.Type == "invalid_request_error" || f.Type == "card_error"
	switch reply.Status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound:
		if about {
			return &refusal{failure: &f}
		}
	}
	return &f
}

// refusal is a definite failure. To the outside it is a [*channel.Rejection].
type refusal struct{ failure *failure }

func (r *refusal) Error() string { return r.failure.Error() }

func (r *refusal) Unwrap() error {
	return &channel.Rejection{Code: r.failure.code(), Detail: r.failure.Message}
}

// code gives Stripe's code of an error; empty where it is none of Stripe's.
func code(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.failure.Code
	}
	return ""
}

// unknownObject tells whether Stripe has no such object.
func unknownObject(err error) bool { return code(err) == "resource_missing" }

// idempotencyClash tells whether our number was used with other parameters.
func idempotencyClash(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.Type == "idempotency_error"
}

// keptFailure tells whether Stripe keeps a failure of its own under our number, and repeats it.
func keptFailure(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.Replayed && f.Status >= http.StatusInternalServerError
}

// status gives the HTTP status of Stripe's answer; 0 where there was none.
func status(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.Status
	}
	var r *refusal
	if errors.As(err, &r) {
		return r.failure.Status
	}
	return 0
}

// read is get, decoded.
func read[T any](ctx context.Context, c *client, path string, query url.Values) (T, []byte, error) {
	var v T
	raw, err := c.get(ctx, path, query)
	if err != nil {
		return v, nil, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, nil, fmt.Errorf("read %s of Stripe: %w", path, err)
	}
	return v, raw, nil
}

// made is post, decoded.
func made[T any](ctx context.Context, c *client, path string, form url.Values, idempotencyKey string) (T, []byte, error) {
	var v T
	raw, err := c.post(ctx, path, form, idempotencyKey)
	if err != nil {
		return v, nil, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, nil, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return v, raw, nil
}

// A look through a list is bounded: what lies behind is asked for again later. Pages stay below what the caller reads of one
// reply, also where each object carries all the metadata that Stripe allows.
const (
	pageSize = 40
	maxPages = 125
)

var errTooMany = fmt.Errorf("more than %d objects are listed there: ask again later", maxPages*pageSize)

// each goes through a list, newest first, until want says that it has seen enough.
func (c *client) each(ctx context.Context, path string, query url.Values, want func(id string, raw json.RawMessage) (enough bool, err error)) error {
	query = cloned(query)
	query.Set("limit", fmt.Sprint(pageSize))
	for range maxPages {
		p, _, err := read[page](ctx, c, path, query)
		if err != nil {
			return err
		}
		var last string
		for _, raw := range p.Data {
			var h header
			if err := json.Unmarshal(raw, &h); err != nil || h.ID == "" {
				return fmt.Errorf("a list of %s holds something without an id", path)
			}
			last = h.ID
			enough, err := want(h.ID, raw)
			if err != nil || enough {
				return err
			}
		}
		if !p.HasMore || last == "" {
			return nil
		}
		query.Set("starting_after", last)
	}
	return errTooMany
}

func cloned(v url.Values) url.Values {
	c := url.Values{}
	for name, values := range v {
		c[name] = append([]string(nil), values...)
	}
	return c
}

// pick is each, for the objects that carry our number.
func pick[T any](ctx context.Context, c *client, path string, query url.Values, ours func(T) bool) (found []T, raws []json.RawMessage, err error) {
	err = c.each(ctx, path, query, func(_ string, raw json.RawMessage) (bool, error) {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return false, fmt.Errorf("read a list of %s: %w", path, err)
		}
		if ours(v) {
			found, raws = append(found, v), append(raws, raw)
		}
		return false, nil
	})
	return found, raws, err
}

// key makes the idempotency key of a matter: at most 255 characters, of our number alone.
func key(matter string, numbers ...string) string {
	return "paylatch:" + matter + ":" + strings.Join(numbers, ":")
}
