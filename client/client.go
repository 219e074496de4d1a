// Package client calls the API of paylatch.
//
// Every POST carries an idempotency key, and is sent again under the same key when the network fails, when the server is busy
// or failing, or when its twin is still being worked on. Whatever happens on the way, the request is carried out once and its
// answer is the one of the first time. A process that may die between its decision and the answer passes a key of its own with
// [Key], made of what it has stored, and asks again under that one after its start.
//
// Amounts are whole numbers in minor units of their currency. The package depends on the standard library alone.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client calls one paylatch with one API key. It is safe for use by many goroutines.
type Client struct {
	base     string
	apiKey   string
	http     *http.Client
	attempts int
	pause    func(attempt int) time.Duration
}

// Option changes how a client works.
type Option func(*Client)

// HTTPClient makes the client use h; the default has a time-out of 15 s for one attempt.
func HTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// Attempts says how often a call is sent at most; the default is 5, and 1 never sends again.
func Attempts(n int) Option { return func(c *Client) { c.attempts = max(1, n) } }

// Pause says how long to wait before attempt 2, 3, …, where the server does not say; the default doubles from 100 ms to 5 s,
// of which a random part is waited.
func Pause(pause func(attempt int) time.Duration) Option { return func(c *Client) { c.pause = pause } }

// New takes the base URL of the API, such as https://pay.example.com, and an API key.
func New(baseURL, apiKey string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("paylatch: the base URL must look like https://host")
	}
	if apiKey == "" {
		return nil, errors.New("paylatch: an API key is needed")
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"), apiKey: apiKey, attempts: 5, pause: backOff,
		http: &http.Client{Timeout: 15 * time.Second},
	}
	for _, o := range options {
		o(c)
	}
	// The API redirects nobody. Followed, a POST may become a GET, whose answer is not the request's.
	still := *c.http
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &still
	return c, nil
}

// CallOption changes one call.
type CallOption func(*call)

// Key names the request: the same request under the same key is carried out once, whoever sends it and when, for as long as
// the server keeps its answer (a day by default). Without one the client makes one per call.
func Key(key string) CallOption { return func(c *call) { c.key = key } }

// Async asks not to be kept waiting: a transfer that is not decided yet comes back as TRYING.
func Async() CallOption { return func(c *call) { c.async = true } }

// call is one request, whatever the number of times it is sent.
type call struct {
	method, path string
	body         []byte
	key          string
	async        bool
	// once says that a repeat could be taken for another request.
	once bool
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, call{method: http.MethodGet, path: path}, answer)
}

func (c *Client) post(ctx context.Context, path string, body, answer any, options []CallOption) error {
	request := call{method: http.MethodPost, path: path}
	for _, o := range options {
		o(&request)
	}
	if request.key == "" {
		request.key = rand.Text()
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("paylatch: write the request: %w", err)
		}
		request.body = text
	}
	return c.do(ctx, request, answer)
}

func (c *Client) do(ctx context.Context, r call, answer any) error {
	for attempt := 1; ; attempt++ {
		wait, err := c.try(ctx, r, answer)
		if err == nil {
			return nil
		}
		if attempt >= c.attempts || ctx.Err() != nil || !again(err, r) {
			return err
		}
		if wait == 0 {
			wait = c.pause(attempt + 1)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (after: %w)", ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// try sends the request once. wait is what the server asks for before the next time.
func (c *Client) try(ctx context.Context, r call, answer any) (wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return 0, fmt.Errorf("paylatch: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.apiKey)
	request.Header.Set("Accept", "application/json, application/problem+json")
	if r.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		request.Header.Set("Idempotency-Key", r.key)
	}
	if r.async {
		request.Header.Set("Prefer", "respond-async")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, &networkError{err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, &networkError{err}
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		wait = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	problem := strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json")
	if response.StatusCode >= 300 || problem {
		return wait, newError(response, text)
	}
	if answer == nil {
		return 0, nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return 0, fmt.Errorf("paylatch: read the answer: %w", err)
	}
	return 0, nil
}

// maxRetryAfter bounds what a server can make a caller wait for.
const maxRetryAfter = 30 * time.Second

func backOff(attempt int) time.Duration {
	most := min(100*time.Millisecond<<(attempt-2), 5*time.Second)
	part, err := rand.Int(rand.Reader, big.NewInt(int64(most)))
	if err != nil {
		return most
	}
	return time.Duration(part.Int64())
}
