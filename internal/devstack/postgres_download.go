package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadedPostgres is the major version of embeddedpostgres.V17.
const downloadedPostgres = 17

// postgresCacheDir is where a downloaded PostgreSQL is kept. Root's own cache is closed to the user that PostgreSQL
// runs as, so for root it is the machine's.
func postgresCacheDir() (string, error) {
	o, err := clusterOwner()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir(), "postgres")
	blocked, err := o.blockedAt(dir)
	if err != nil {
		return "", err
	}
	if blocked != "" {
		return "/var/cache/paylatch/postgres", nil
	}
	return dir, nil
}

// downloadOnce returns the downloaded PostgreSQL in cacheDir, and downloads it if no process has done so before.
func downloadOnce(ctx context.Context, cacheDir string, say progress) (binDir string, err error) {
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("making the download directory: %w", err)
	}
	unlock, err := lockWaiting(ctx, filepath.Join(cacheDir, "lock"), func() {
		say.line("waiting for another process that is downloading PostgreSQL")
	})
	if err != nil {
		return "", err
	}
	if binDir, ok := downloadedIn(cacheDir); ok {
		unlock()
		return binDir, nil
	}
	say.line("no PostgreSQL found: downloading PostgreSQL %d to %s, once", downloadedPostgres, cacheDir)

	type result struct {
		binDir string
		err    error
	}
	done := make(chan result, 1)
	go func() {
		// The library takes no context; what is given up here ends, and gives the lock back, in its own time.
		defer unlock()
		binDir, err := downloadPostgres(cacheDir)
		done <- result{binDir, err}
	}()
	select {
	case r := <-done:
		return r.binDir, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(5 * time.Minute):
		return "", errors.New("it took more than 5 minutes")
	}
}

func downloadedIn(cacheDir string) (binDir string, ok bool) {
	binDir = filepath.Join(cacheDir, strconv.Itoa(downloadedPostgres), "bin")
	_, err := os.Stat(filepath.Join(binDir, "postgres"))
	return binDir, err == nil
}

// downloadPostgres fetches PostgreSQL into cacheDir. The library has no call for just that: it starts a server as
// well, which is stopped at once. As root that start fails, after the programs are in place.
func downloadPostgres(cacheDir string) (binDir string, err error) {
	scratch, err := os.MkdirTemp("", "paylatch-download-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	port, err := freePort()
	if err != nil {
		return "", err
	}
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).
		Port(uint32(port)).
		CachePath(filepath.Join(cacheDir, "archive")).
		BinariesPath(filepath.Join(cacheDir, strconv.Itoa(downloadedPostgres))).
		RuntimePath(filepath.Join(scratch, "run")).
		DataPath(filepath.Join(scratch, "data")).
		Logger(io.Discard))
	started := server.Start()
	if started == nil {
		if err := server.Stop(); err != nil {
			return "", fmt.Errorf("stopping the downloaded PostgreSQL: %w", err)
		}
	}
	binDir, ok := downloadedIn(cacheDir)
	if !ok {
		return "", started
	}
	return binDir, makeReadable(cacheDir)
}

// makeReadable lets every user read what was extracted, and run what this user can run.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
