package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// each does something n times, by so many callers at once; the first error ends it.
func each(ctx context.Context, n, callers int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, callers) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// sender sends requests that are ready, each caller over a connection that it keeps. It does as little as can be done: what is
// measured is who answers.
type sender struct {
	address string
	idle    chan *connection
}

type connection struct {
	net.Conn
	reader *bufio.Reader
}

// sendTimeout bounds one request.
const sendTimeout = 30 * time.Second

func newSender(base string, callers int) (*sender, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	s := &sender{u.Host, make(chan *connection, callers)}
	for range callers {
		s.idle <- nil // connected when it is needed: the server does not wait long for a first request
	}
	return s, nil
}

// reset closes the connections, while no request is under way: the server would not keep them through a long pause.
func (s *sender) reset() {
	for range cap(s.idle) {
		if conn := <-s.idle; conn != nil {
			_ = conn.Close() // everything has been read
		}
		s.idle <- nil
	}
}

// send wants a 2xx.
func (s *sender) send(request []byte) (err error) {
	conn := <-s.idle
	defer func() {
		if err != nil && conn != nil {
			_ = conn.Close() // it is of no use any more
			conn = nil
		}
		s.idle <- conn
	}()
	if conn == nil {
		plain, err := net.Dial("tcp", s.address)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		conn = &connection{plain, bufio.NewReader(plain)}
	}
	status, err := conn.roundTrip(request)
	if err != nil {
		return fmt.Errorf("send a callback: %w", err)
	}
	if status/100 != 2 {
		return fmt.Errorf("a callback was answered %d", status)
	}
	return nil
}

func (c *connection) roundTrip(request []byte) (status int, err error) {
	if err := c.SetDeadline(time.Now().Add(sendTimeout)); err != nil {
		return 0, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// requestBytes is a POST as it goes over the wire.
func requestBytes(path string, header http.Header, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n", path, len(body))
	_ = header.Write(&b) // to memory
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
