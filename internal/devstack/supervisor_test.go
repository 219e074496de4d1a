package devstack

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// supervise makes a supervisor of a shell script that is ready at once.
func supervise(t *testing.T, script string, progress *said) (s *supervisor, starts *atomic.Int32) {
	t.Helper()
	starts = &atomic.Int32{}
	s = &supervisor{
		name: "The script",
		command: func(output *os.File) *exec.Cmd {
			starts.Add(1)
			cmd := exec.Command("sh", "-c", script)
			cmd.Stdout, cmd.Stderr = output, output
			return cmd
		},
		ready:    func(context.Context) error { return nil },
		within:   patience,
		openLog:  openScratchLog,
		orphaned: syscall.SIGKILL,
		stopping: []step{{syscall.SIGTERM, 100 * time.Millisecond}},
		say:      sayTo(progress),
	}
	t.Cleanup(s.kill)
	return s, starts
}

func readPID(file string) (int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(raw)))
}

func sayTo(s *said) progress { return progress{s} }

func TestStopWinsOverARestartThatIsDue(t *testing.T) {
	t.Parallel()
	progress := &said{}
	s, starts := supervise(t, "exec sleep 600", progress)
	require.NoError(t, s.start(t.Context()))
	require.NoError(t, syscall.Kill(s.pid(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return strings.Contains(progress.String(), "starting it again") }, patience, often)
	s.stop()
	require.Zero(t, s.pid())
	require.Never(t, func() bool { return starts.Load() > 1 }, 1500*time.Millisecond, often)
}

func TestAServerThatIgnoresTheRequestToEndIsKilled(t *testing.T) {
	t.Parallel()
	note := filepath.Join(t.TempDir(), "note")
	s, _ := supervise(t, "trap '' TERM; sleep 600 & echo $! > "+note+"; wait", &said{})
	// Ready once the helper of the script runs as well.
	s.ready = func(context.Context) error { _, err := readPID(note); return err }
	require.NoError(t, s.start(t.Context()))
	helper, err := readPID(note)
	require.NoError(t, err)
	pid := s.pid()
	s.stop()
	requireGone(t, []int{pid, helper})
}

func TestAServerThatEndsAtItsStartIsQuoted(t *testing.T) {
	t.Parallel()
	s, starts := supervise(t, "echo no disk; exit 3", &said{})
	s.ready = func(context.Context) error { return errors.New("not yet") }
	err := s.start(t.Context())
	require.ErrorIs(t, err, errEnded)
	require.EqualError(t, err, "The script ended right after its start (exit status 3); its log ends with:\n  no disk")
	require.EqualValues(t, 1, starts.Load(), "a failed start is not tried again by itself")
}

func TestAServerThatNeverServesIsEndedAfterItsTime(t *testing.T) {
	t.Parallel()
	s, _ := supervise(t, "exec sleep 600", &said{})
	s.within = 100 * time.Millisecond
	s.ready = func(context.Context) error { return errors.New("still loading") }
	s.pidFile = filepath.Join(t.TempDir(), "pid")
	err := s.start(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "still loading")
	pid, err := readPID(s.pidFile)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestWhatAKilledProcessLeftRunningIsStopped(t *testing.T) {
	t.Parallel()
	dir, progress := t.TempDir(), &said{}
	data, pidFile := filepath.Join(dir, "data"), filepath.Join(dir, "pid")
	require.NoError(t, os.WriteFile(data, nil, 0o600))
	leftOver, err := launch(exec.Command("tail", "-f", data), syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(func() { leftOver.end(nil) })
	note := func() {
		require.NoError(t, os.WriteFile(pidFile, []byte(strconv.Itoa(leftOver.pid())+"\nmore\n"), 0o600))
	}
	// launch returns between fork and exec at the earliest: the command line may not be the program's yet.
	require.Eventually(t, func() bool { return strings.Contains(commandLine(leftOver.pid()), data) }, patience, often)

	note()
	require.NoError(t, stopLeftOver(t.Context(), pidFile, filepath.Join(dir, "other"), syscall.SIGTERM, sayTo(progress)))
	require.NoError(t, leftOver.alive.Err(), "a program that only has the number is left alone")
	require.NoFileExists(t, pidFile)
	require.Empty(t, progress.String())

	note()
	require.NoError(t, stopLeftOver(t.Context(), pidFile, data, syscall.SIGTERM, sayTo(progress)))
	require.Empty(t, commandLine(leftOver.pid()))
	require.NoFileExists(t, pidFile)
	require.Contains(t, progress.String(), "stopping the server that an earlier run left behind")

	require.NoError(t, stopLeftOver(t.Context(), pidFile, data, syscall.SIGTERM, sayTo(progress)), "no file, nothing to do")
}

func TestAWaitingLockIsHandedOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(path)
	require.NoError(t, err)
	_, err = lock(path)
	require.ErrorIs(t, err, errLocked)

	unlockNext, err := lockWaiting(t.Context(), path, unlock)
	require.NoError(t, err)
	defer unlockNext()

	ctx, cancel := context.WithCancel(t.Context())
	_, err = lockWaiting(ctx, path, cancel)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOnlyTheEndOfALongLogIsQuoted(t *testing.T) {
	t.Parallel()
	log, err := openScratchLog()
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	_, err = log.WriteString("earlier run\n")
	require.NoError(t, err)
	offset := logEnd(log)
	require.Empty(t, lastLines(log, offset))
	_, err = log.WriteString(strings.Repeat("a line of the log\n", 1000) + "the last line\n")
	require.NoError(t, err)
	got := strings.Split(lastLines(log, offset), "\n")
	require.Equal(t, "the last line", got[len(got)-1])
	require.Equal(t, "a line of the log", got[0], "whole lines")
	require.Less(t, len(got), 200)
}
