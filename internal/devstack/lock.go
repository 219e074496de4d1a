package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errLocked says that another live process holds a lock file.
var errLocked = errors.New("in use by another process")

// lock takes the lock file at path or fails with errLocked at once. The kernel drops the lock when this process
// ends, however it ends, so a lock is never stale.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: %w", path, errLocked)
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// lockWaiting takes the lock file at path, waiting for another process to give it up; waiting is called once if
// there is one.
func lockWaiting(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	unlock, err = lock(path)
	if !errors.Is(err, errLocked) {
		return unlock, err
	}
	waiting()
	if ended := poll(ctx, func() bool {
		unlock, err = lock(path)
		return !errors.Is(err, errLocked)
	}); ended != nil {
		return nil, ended
	}
	return unlock, err
}
