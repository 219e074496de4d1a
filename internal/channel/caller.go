package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"
)

// Limits of outgoing calls. A reply that takes longer is unknown, and asked for.
const (
	callTimeout = 8 * time.Second
	callsPerSec = 30 // per account and process: below what the channels allow a merchant
	callsBurst  = 30
	// rateWait bounds the wait for an account's turn: who waits holds a worker, and the other accounts need those too. What is
	// not called now is called again later.
	rateWait      = time.Second
	maxReply      = 1 << 20
	maxConnsPerAC = 32
)

// Reply is a channel's answer as it came.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Caller makes the outgoing calls of one account: with a time-out, within a rate, and without following redirects, which
// would take a signed request to somebody else.
type Caller struct {
	client *http.Client
	limit  *rate.Limiter
}

// NewCaller makes a caller with connections of its own.
func NewCaller() *Caller {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost = maxConnsPerAC
	transport.MaxIdleConnsPerHost = maxConnsPerAC
	transport.ResponseHeaderTimeout = callTimeout
	return &Caller{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		limit: rate.NewLimiter(callsPerSec, callsBurst),
	}
}

// errBusy says that an account makes more calls than it may: this one was not made.
var errBusy = errors.New("the account makes more calls than its rate: call again later")

// Do sends a request and reads the whole reply, of at most 1 MiB. Any error leaves unknown whether the channel did it.
func (c *Caller) Do(req *http.Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	if err := c.turn(ctx); err != nil {
		return Reply{}, err
	}
	response, err := c.send(req.WithContext(ctx))
	if err != nil {
		return Reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil {
		return Reply{}, fmt.Errorf("read the reply of %s: %w", req.URL.Host, err)
	}
	if len(body) > maxReply {
		return Reply{}, fmt.Errorf("the reply of %s has more than 1 MiB", req.URL.Host)
	}
	return Reply{response.StatusCode, response.Header, body}, nil
}

// Stream sends a request and hands the reply's body on as it comes: for files, within the request's own context. The caller
// closes the body.
func (c *Caller) Stream(req *http.Request) (*http.Response, error) {
	if err := c.limit.Wait(req.Context()); err != nil {
		return nil, fmt.Errorf("wait for the account's rate: %w", err)
	}
	return c.send(req)
}

// turn waits for the account's turn, where that is soon.
func (c *Caller) turn(ctx context.Context) error {
	r := c.limit.Reserve()
	wait := r.Delay()
	if wait > rateWait {
		r.Cancel()
		return errBusy
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		r.Cancel()
		return fmt.Errorf("wait for the account's rate: %w", ctx.Err())
	}
}

func (c *Caller) send(req *http.Request) (*http.Response, error) {
	response, err := c.client.Do(req)
	if named := (*url.Error)(nil); errors.As(err, &named) {
		err = named.Err // its own text quotes the whole address, where some channels have signatures and personal data
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s did not answer in time: %w", req.URL.Host, err)
	}
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", req.URL.Host, err)
	}
	return response, nil
}

// Close lets go of idle connections.
func (c *Caller) Close() { c.client.CloseIdleConnections() }
