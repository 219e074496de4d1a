package devstack

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// Crash ends the server and all its sessions with SIGKILL at the same moment, as the loss of its machine would: no session
// writes another byte. Recovery comes with the next Start.
func (p *Postgres) Crash() error {
	if p.Given() {
		return errGivenPostgres
	}
	p.life.Lock()
	defer p.life.Unlock()
	if p.unlock == nil {
		return nil
	}
	// Stopped first, none can outlive another, and no process number is used again before its owner is dead.
	if err := p.pauseAll(); err != nil {
		return errors.Join(err, p.resume())
	}
	paused := p.paused
	p.paused = nil
	for _, pid := range slices.Backward(paused) { // the postmaster, which would restart its sessions, is the last
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("crashing process %d of PostgreSQL: %w", pid, err)
		}
	}
	p.server.end(nil)
	p.unlock()
	p.unlock = nil
	return nil
}

// Pause stops the server in its tracks: connections stay open, nothing answers.
func (t *Temporal) Pause() error { return t.tell(syscall.SIGSTOP) }

// Resume lets a paused server go on where it was. It does nothing to one that is not paused.
func (t *Temporal) Resume() error { return t.tell(syscall.SIGCONT) }

func (t *Temporal) tell(sig syscall.Signal) error {
	if t.Given() {
		return errGivenTemporal
	}
	t.life.Lock()
	defer t.life.Unlock()
	if pid := t.server.pid(); pid != 0 {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("telling Temporal, process %d: %w", pid, err)
		}
	}
	return nil
}
