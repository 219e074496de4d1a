package devstack

import (
	"os/exec"
	"syscall"
	"time"
)

// Process is a run of a program that is not one of the two servers, under the same care: it leads a process group of its
// own, and on Linux it does not outlive this process.
type Process struct{ c *child }

// Launch starts a program.
func Launch(cmd *exec.Cmd) (*Process, error) {
	c, err := launch(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	return &Process{c}, nil
}

// Ended is closed once the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.c.alive.Done() }

// End says how the program ended, such as "exit status 1"; only after Ended.
func (p *Process) End() string { return p.c.cmd.ProcessState.String() }

// Kill ends the program as a crash would, and returns once it has ended.
func (p *Process) Kill() {
	p.c.kill()
	<-p.c.alive.Done()
}

// Stop asks the program to end, and kills it when it has not after so long.
func (p *Process) Stop(patience time.Duration) {
	p.Resume() // a paused program hears nothing
	p.c.end([]step{{syscall.SIGTERM, patience}})
}

// Pause stops the program in its tracks: its connections stay open, and nothing answers.
func (p *Process) Pause() { p.c.signal(syscall.SIGSTOP) }

// Resume lets a paused program go on where it was.
func (p *Process) Resume() { p.c.signal(syscall.SIGCONT) }
