package devstack

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLeftOver stops the server that an earlier, killed process left running and returns when it has ended. The first
// line of pidFile names it. A number that meanwhile belongs to another program is left alone: the process must have
// mark, the path of the data it serves, on its command line. Afterwards pidFile is gone.
//
// The caller holds the lock of the directory, so the server has no owner.
func stopLeftOver(ctx context.Context, pidFile, mark string, sig syscall.Signal, say progress) error {
	raw, err := os.ReadFile(pidFile)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for a server left by an earlier run: %w", err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	running := func() bool { return err == nil && pid > 0 && strings.Contains(commandLine(pid), mark) }

	if running() {
		say.line("stopping the server that an earlier run left behind (process %d)", pid)
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("stopping process %d, left by an earlier run: %w", pid, err)
		}
		ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
		defer cancel()
		if err := poll(ctx, func() bool { return !running() }); err != nil {
			return fmt.Errorf("process %d, left by an earlier run, does not end; stop it by hand: %w", pid, err)
		}
	}
	if err := os.Remove(pidFile); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing the process file of an earlier run: %w", err)
	}
	return nil
}

// poll asks until the answer is yes or ctx ends.
func poll(ctx context.Context, yes func() bool) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

const pollEvery = 20 * time.Millisecond
