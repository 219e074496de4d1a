package devstack

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is one run of a program that this process started.
type child struct {
	cmd     *exec.Cmd
	started time.Time

	// alive is cancelled once the program has ended and was reaped; err may be read from then on.
	alive context.Context
	err   error
}

// launch starts cmd in a process group of its own, so that a Ctrl-C in the terminal reaches this process first and
// lets it decide. On Linux the program gets the signal orphaned when this process dies.
func launch(cmd *exec.Cmd, orphaned syscall.Signal) (*child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, orphaned)

	alive, ended := context.WithCancel(context.Background())
	c := &child{cmd: cmd, alive: alive}
	failed := make(chan error, 1)
	go func() {
		// The kernel ties the death signal to the thread that forked, not to the process. Holding the thread until
		// the program has ended keeps the runtime from retiring it and killing a healthy server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer ended()

		err := cmd.Start()
		c.started = time.Now()
		failed <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-failed; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// signal sends sig to the program itself. A program that has already ended is no error.
func (c *child) signal(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig)
}

// kill sends SIGKILL to the program and to all it started in its group, in one call: once the program is reaped, its
// number no longer safely names the group.
func (c *child) kill() {
	if c.alive.Err() == nil {
		_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
	}
}

// step is one rung of asking a program to end.
type step struct {
	signal   syscall.Signal
	patience time.Duration
}

// end goes down the steps until the program has ended, and kills it after the last one.
func (c *child) end(steps []step) {
	for _, s := range steps {
		c.signal(s.signal)
		select {
		case <-c.alive.Done():
			return
		case <-time.After(s.patience):
		}
	}
	c.kill()
	<-c.alive.Done()
}

// runToEnd runs cmd to its end and kills it, with all it started, when ctx ends first.
func runToEnd(ctx context.Context, cmd *exec.Cmd) error {
	// A grandchild that keeps an output pipe open must not hold us for ever.
	cmd.WaitDelay = 5 * time.Second
	c, err := launch(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-c.alive.Done():
		return c.err
	case <-ctx.Done():
		c.kill()
		<-c.alive.Done()
		return ctx.Err()
	}
}
