package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/devstack"
)

// server is something that can be struck.
type server interface {
	// Kill ends it as a crash would, Stop in good order; Start brings it back.
	Kill() error
	Stop() error
	Start(ctx context.Context) error
	// Pause stops it in its tracks, Resume lets it go on.
	Pause() error
	Resume() error
}

// postgres crashes with all its sessions.
type postgres struct{ *devstack.Postgres }

func (p postgres) Kill() error { return p.Crash() }

// stopPatience is how long a process may take to end in good order.
const stopPatience = 40 * time.Second

// restartDelay is how soon a process that ended by itself is started again, as whatever runs paylatch would.
const restartDelay = 300 * time.Millisecond

// process is one paylatch process, kept running until it is struck.
type process struct {
	name    string
	command func(output *os.File) *exec.Cmd
	logFile string
	tell    func(format string, args ...any)

	mu      sync.Mutex
	running *devstack.Process // nil while it is down on purpose
	ends    []string          // how it ended when nobody asked it to
	watched sync.WaitGroup
}

func (p *process) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return nil
	}
	return p.launch()
}

// launch starts the program and watches it; mu is held.
func (p *process) launch() error {
	output, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer output.Close() // the program has its own
	run, err := devstack.Launch(p.command(output))
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.running = run
	p.watched.Go(func() { p.watch(run) })
	return nil
}

// watch starts the process again when it ends though nobody asked it to.
func (p *process) watch(run *devstack.Process) {
	<-run.Ended()
	for {
		p.mu.Lock()
		if p.running != run {
			p.mu.Unlock()
			return
		}
		p.ends = append(p.ends, run.End())
		p.tell("%s ended by itself (%s) and is started again: see %s", p.name, run.End(), p.logFile)
		p.mu.Unlock()

		time.Sleep(restartDelay)

		p.mu.Lock()
		mine := p.running == run
		var err error
		if mine {
			err = p.launch()
		}
		p.mu.Unlock()
		if !mine || err == nil {
			return
		}
		p.tell("%v", err)
	}
}

// take gives the running program and makes its end one that was asked for.
func (p *process) take() *devstack.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := p.running
	p.running = nil
	return run
}

func (p *process) Kill() error {
	if run := p.take(); run != nil {
		run.Kill()
	}
	return nil
}

func (p *process) Stop() error {
	if run := p.take(); run != nil {
		run.Stop(stopPatience)
	}
	return nil
}

func (p *process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		p.running.Pause()
	}
	return nil
}

func (p *process) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		p.running.Resume()
	}
	return nil
}

// endsByItself lists how the process ended unasked.
func (p *process) endsByItself() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.ends...)
}

// target names one instance of a part.
type target struct {
	part     Part
	instance int
}

// striker carries a plan out.
type striker struct {
	servers map[target]server
	// volley begins a burst of load, so that a blow falls on work.
	volley func()
	tell   func(format string, args ...any)

	mu    sync.Mutex
	spans map[target][]span // when each was away
}

// struck tells whether a target was away in a stretch of time.
func (s *striker) struck(at target, when span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.spans[at], when.meets)
}

// run plays the rounds, each at its time or when the one before is over. Everything is up again when it returns nil.
func (s *striker) run(ctx context.Context, plan []Round, begin time.Time) error {
	for _, round := range plan {
		if !sleep(ctx, time.Until(begin.Add(round.At))) {
			return ctx.Err()
		}
		s.tell("%s", round)
		var wg sync.WaitGroup
		errs := make([]error, len(round.Faults))
		for i, f := range round.Faults {
			wg.Go(func() { errs[i] = s.strike(ctx, f) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (s *striker) strike(ctx context.Context, f Fault) error {
	if !sleep(ctx, f.After) {
		return ctx.Err()
	}
	s.volley()
	if !sleep(ctx, f.Into) {
		return ctx.Err()
	}
	at := target{f.Part, f.Instance}
	srv := s.servers[at]
	down, up := srv.Kill, srv.Start
	switch f.How {
	case Kill:
	case Pause:
		down, up = srv.Pause, func(context.Context) error { return srv.Resume() }
	case Restart:
		down = srv.Stop
	}
	from := time.Now()
	if err := down(); err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	if !sleep(ctx, f.Away) {
		return ctx.Err()
	}
	if err := bringBack(ctx, up); err != nil {
		return fmt.Errorf("after %s it does not come back: %w", f, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans[at] = append(s.spans[at], span{from, time.Now().Add(wakeUp)})
	return nil
}

// wakeUp is how long what is up again may need to get through what has piled up.
const wakeUp = time.Second

// backWithin bounds how long a server may take to come back.
const backWithin = 90 * time.Second

// bringBack tries again for a while: a port may be taken for a moment.
func bringBack(ctx context.Context, up func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	for {
		err := up(ctx)
		if err == nil || !sleep(ctx, time.Second) {
			return err
		}
	}
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
