package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Needs says which servers the tests of a package use.
type Needs struct {
	Postgres         bool
	Temporal         bool
	SearchAttributes map[string]string // name to type, registered in Temporal
}

// These name a running server to test against instead of starting one.
const (
	testDatabaseURL     = "PAYLATCH_TEST_DATABASE_URL"
	testTemporalAddress = "PAYLATCH_TEST_TEMPORAL_ADDRESS"
)

// servers are what Main started, for the accessors.
var servers struct {
	postgres *Postgres
	temporal *Temporal
}

// TestPostgres is the PostgreSQL of this test run. It panics unless Main was told of the need.
func TestPostgres() *Postgres {
	if servers.postgres == nil {
		panic("devstack.TestPostgres: the package's TestMain must call devstack.Main with Needs{Postgres: true}")
	}
	return servers.postgres
}

// TestTemporal is the Temporal of this test run. It panics unless Main was told of the need.
func TestTemporal() *Temporal {
	if servers.temporal == nil {
		panic("devstack.TestTemporal: the package's TestMain must call devstack.Main with Needs{Temporal: true}")
	}
	return servers.temporal
}

// Main starts the servers, runs the tests and takes the servers down with all their data; it returns the exit code.
// Servers and data also go when the tests panic in TestMain's goroutine or are interrupted. When the test binary dies
// in another way, the servers still go (on Linux) and a later run removes the data.
//
// m is a *testing.M. To look for leaked goroutines, look after Main has returned: until then the servers are watched
// by goroutines of this package.
func Main(m interface{ Run() int }, needs Needs) (code int) {
	removeForgotten(os.TempDir())
	dir, unlock, err := testDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, "devstack:", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	takeDown := sync.OnceFunc(func() {
		cancel()
		<-started
		if err := stopServers(); err != nil {
			fmt.Fprintln(os.Stderr, "devstack:", err)
		}
		_ = os.RemoveAll(dir)
		unlock()
	})
	defer takeDown()
	defer onInterrupt(takeDown)()

	err = startServers(ctx, dir, needs)
	close(started)
	if err != nil {
		fmt.Fprintln(os.Stderr, "devstack:", err)
		return 1
	}
	return m.Run()
}

func startServers(ctx context.Context, dir string, needs Needs) error {
	var wg sync.WaitGroup
	var postgresErr, temporalErr error
	if needs.Postgres {
		wg.Go(func() {
			servers.postgres, postgresErr = StartPostgres(ctx, PostgresOptions{
				URL:      os.Getenv(testDatabaseURL),
				Dir:      filepath.Join(dir, "postgres"),
				Progress: os.Stderr,
			})
		})
	}
	if needs.Temporal {
		wg.Go(func() {
			servers.temporal, temporalErr = StartTemporal(ctx, TemporalOptions{
				Address:          os.Getenv(testTemporalAddress),
				Headless:         true,
				SearchAttributes: needs.SearchAttributes,
				Progress:         os.Stderr,
			})
		})
	}
	wg.Wait()
	return errors.Join(postgresErr, temporalErr)
}

// stopServers crashes the servers, as an orderly end costs seconds and their data goes anyway.
func stopServers() error {
	var errs []error
	if t := servers.temporal; t != nil && !t.Given() {
		errs = append(errs, t.Kill())
	}
	if p := servers.postgres; p != nil {
		errs = append(errs, p.Remove())
	}
	servers.postgres, servers.temporal = nil, nil
	return errors.Join(errs...)
}

// onInterrupt takes the servers down and exits when the tests are interrupted, until stop is called.
func onInterrupt(takeDown func()) (stop func()) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	quit := make(chan struct{})
	go func() {
		select {
		case <-interrupts:
			takeDown()
			os.Exit(130)
		case <-quit:
		}
	}()
	return func() { signal.Stop(interrupts); close(quit) }
}

const (
	testDirPrefix = "paylatch-test-"
	testDirLock   = "in-use"
)

// testDir makes the directory of this test run, held until unlock. The user that PostgreSQL runs as may pass through.
func testDir() (dir string, unlock func(), err error) {
	dir, err = os.MkdirTemp("", testDirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("making a directory for the servers: %w", err)
	}
	unlock, err = lock(filepath.Join(dir, testDirLock))
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		unlock()
		return "", nil, fmt.Errorf("opening the servers' directory: %w", err)
	}
	return dir, unlock, nil
}

// removeForgotten deletes the directories of test runs that died. One that is held, or so young that it may be about
// to be, stays.
func removeForgotten(temp string) {
	dirs, _ := filepath.Glob(filepath.Join(temp, testDirPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < 10*time.Minute {
			continue
		}
		unlock, err := lock(filepath.Join(dir, testDirLock))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		unlock()
	}
}
