package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A server that ends on its own is started again after firstDelay, then after twice as long each time up to
// longestDelay. One that has run for longestDelay starts from firstDelay again.
const (
	firstDelay   = time.Second
	longestDelay = 10 * time.Second
)

// errEnded says that a server ended by itself before it served.
var errEnded = errors.New("ended right after its start")

// errHopeless marks an answer that waiting cannot change.
var errHopeless = errors.New("giving up")

// supervisor keeps one server running between start and stop.
type supervisor struct {
	name    string                          // for people: "PostgreSQL"
	command func(output *os.File) *exec.Cmd // a fresh command each time
	ready   func(ctx context.Context) error // one try; nil once the server serves
	within  time.Duration                   // how long the server may take to become ready
	openLog func() (*os.File, error)        // readable and appending
	pidFile string                          // "" for none

	orphaned syscall.Signal // what the server gets when this process dies
	stopping []step         // orderly end
	killing  []step         // crash

	say progress

	// operation lets one start, stop or kill run at a time; current may be read under the inner lock by anyone.
	operation sync.Mutex
	run       *run
}

// run is the time between one start and its stop.
type run struct {
	ctx    context.Context // ends when a stop or kill begins
	cancel context.CancelFunc
	over   chan struct{} // closed once nothing restarts the server any more
	log    *os.File

	mu     sync.Mutex
	child  *child
	offset int64 // where the log of child begins
}

func (r *run) current() *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.child
}

// start returns once the server is ready. The end of ctx stops the waiting, not a server that became ready.
func (s *supervisor) start(ctx context.Context) error {
	s.operation.Lock()
	defer s.operation.Unlock()
	if s.run != nil {
		return nil
	}
	log, err := s.openLog()
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", s.name, err)
	}
	r := &run{over: make(chan struct{}), log: log}
	if err := s.spawn(r); err != nil {
		_ = log.Close()
		return err
	}
	if err := s.awaitReady(ctx, r); err != nil {
		r.child.end(s.killing)
		_ = log.Close()
		return err
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	s.run = r
	go s.watch(r)
	return nil
}

// stop ends the server in order and returns once it has ended. It wins over a restart that is due.
func (s *supervisor) stop() { s.end(s.stopping) }

// kill ends the server as a crash would and returns once it has ended. It is not started again.
func (s *supervisor) kill() { s.end(s.killing) }

func (s *supervisor) end(steps []step) {
	s.operation.Lock()
	defer s.operation.Unlock()
	if s.run == nil {
		return
	}
	s.run.cancel()
	<-s.run.over
	s.run.current().end(steps)
	if s.pidFile != "" {
		_ = os.Remove(s.pidFile)
	}
	_ = s.run.log.Close()
	s.run = nil
}

// pid is the process number of the server, 0 when it does not run.
func (s *supervisor) pid() int {
	s.operation.Lock()
	defer s.operation.Unlock()
	if s.run == nil {
		return 0
	}
	c := s.run.current()
	if c.alive.Err() != nil {
		return 0
	}
	return c.pid()
}

func (s *supervisor) spawn(r *run) error {
	offset := logEnd(r.log)
	c, err := launch(s.command(r.log), s.orphaned)
	if err != nil {
		return err
	}
	if s.pidFile != "" {
		if err := os.WriteFile(s.pidFile, []byte(strconv.Itoa(c.pid())+"\n"), 0o600); err != nil {
			c.end(s.killing)
			return fmt.Errorf("noting the process number of %s: %w", s.name, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child, r.offset = c, offset
	return nil
}

// watch starts the server again each time it ends, until the run is stopped.
func (s *supervisor) watch(r *run) {
	defer close(r.over)
	var delay time.Duration
	for {
		c := r.current()
		select {
		case <-r.ctx.Done():
			return
		case <-c.alive.Done():
		}
		delay = nextDelay(delay, time.Since(c.started))
		s.say.line("%s ended unexpectedly (%v): starting it again in %s", s.name, c.cmd.ProcessState, delay)
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(delay):
		}

		err := s.spawn(r)
		if err == nil {
			err = s.awaitReady(r.ctx, r)
		}
		switch {
		case r.ctx.Err() != nil:
			return
		case err != nil:
			s.say.line("%s did not come back: %v", s.name, err)
		default:
			s.say.line("%s is back", s.name)
		}
	}
}

// nextDelay is the wait before the next start of a server that lived for so long after the delay before.
func nextDelay(before, lived time.Duration) time.Duration {
	if before == 0 || lived > longestDelay {
		return firstDelay
	}
	return min(2*before, longestDelay)
}

// awaitReady asks the server until it serves, ends, or has used up its time. Its error quotes the end of the log.
func (s *supervisor) awaitReady(ctx context.Context, r *run) error {
	c, offset := r.current(), r.offset
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	// The server's end cuts a try short, so that nobody waits for an answer that cannot come.
	defer context.AfterFunc(c.alive, cancel)()

	var last error
	err := poll(ctx, func() bool {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		last = s.ready(attempt)
		return last == nil || errors.Is(last, errHopeless)
	})
	switch {
	case c.alive.Err() != nil:
		return fmt.Errorf("%s %w (%v)%s", s.name, errEnded, c.cmd.ProcessState, quote(lastLines(r.log, offset)))
	case err != nil:
		return fmt.Errorf("waiting for %s: %w (%w)%s", s.name, err, last, quote(lastLines(r.log, offset)))
	case last != nil:
		return fmt.Errorf("asking %s: %w", s.name, last)
	}
	return nil
}
