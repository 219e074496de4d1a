package devstack

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// Pause stops the server and its sessions in their tracks, as a hung disk would: connections stay open, nothing
// answers. It is meant for tests of a hanging database.
func (p *Postgres) Pause() error {
	if p.Given() {
		return errGivenPostgres
	}
	p.life.Lock()
	defer p.life.Unlock()
	return p.pauseAll()
}

func (p *Postgres) pauseAll() error {
	postmaster := p.server.pid()
	if postmaster == 0 {
		return errors.New("pausing PostgreSQL: it does not run")
	}
	// First the postmaster, so that it makes no more children. Each child leads a process group of its own, so a
	// signal to the postmaster's group would not reach them.
	if err := p.pause(postmaster); err != nil {
		return err
	}
	for {
		children, err := childrenOf(postmaster)
		if err != nil {
			return fmt.Errorf("pausing PostgreSQL: %w", err)
		}
		before := len(p.paused)
		for _, child := range children {
			if err := p.pause(child); err != nil {
				return err
			}
		}
		if len(p.paused) == before {
			return nil
		}
	}
}

func (p *Postgres) pause(pid int) error {
	if slices.Contains(p.paused, pid) {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("pausing process %d of PostgreSQL: %w", pid, err)
	}
	p.paused = append(p.paused, pid)
	return nil
}

// Resume lets a paused server go on where it was. It does nothing to one that is not paused.
func (p *Postgres) Resume() error {
	if p.Given() {
		return errGivenPostgres
	}
	p.life.Lock()
	defer p.life.Unlock()
	return p.resume()
}

func (p *Postgres) resume() error {
	paused := p.paused
	p.paused = nil
	for _, pid := range slices.Backward(paused) {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("resuming process %d of PostgreSQL: %w", pid, err)
		}
	}
	return nil
}
