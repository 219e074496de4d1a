package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// answerWithin is how long channel and merchants wait for an answer: what the channels do.
const answerWithin = 5 * time.Second

// answer is what came back; status 0 is no answer, which says nothing about what was done.
type answer struct {
	status int
	body   []byte
	by     int // the API, from 1
	began  time.Time
	took   time.Duration
}

// code is the stable code of a problem; empty for anything else.
func (a answer) code() string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(a.body, &p) // what is no problem has no code
	return p.Code
}

// passing tells whether the same call may be answered otherwise in a moment.
func (a answer) passing() bool {
	return a.status == 0 || a.status >= 500 || a.status == http.StatusTooManyRequests || a.code() == "idempotency_key_in_progress"
}

// caller calls the APIs in turn, as a load balancer does that knows of no fault.
type caller struct {
	bases  []string
	client *http.Client
	turn   atomic.Uint64
}

func newCaller(bases []string) *caller {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	return &caller{bases: bases, client: &http.Client{Timeout: answerWithin, Transport: transport}}
}

func (c *caller) close() { c.client.CloseIdleConnections() }

func (c *caller) send(ctx context.Context, method, path string, header http.Header, body []byte) answer {
	turn := int(c.turn.Add(1) % uint64(len(c.bases)))
	request, err := http.NewRequestWithContext(ctx, method, c.bases[turn]+path, bytes.NewReader(body))
	if err != nil {
		return answer{}
	}
	request.Header = header
	begin := time.Now()
	response, err := c.client.Do(request)
	if err != nil {
		return answer{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return answer{} // half an answer is none
	}
	return answer{response.StatusCode, text, turn + 1, begin, time.Since(begin)}
}

// Times between tries.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 2 * time.Second
)

// insist tries until it is done or ctx ends; false is the latter.
func insist(ctx context.Context, try func() (done bool)) bool {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		if ctx.Err() != nil {
			return false
		}
		if try() {
			return true
		}
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return false
		}
	}
}
