package devstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
)

// obtainTemporal returns the Temporal CLI to use, and fetches it if there is none. Of several processes that need it
// at the same time one fetches it and the others wait.
func obtainTemporal(ctx context.Context, say progress) (file string, err error) {
	cache := cacheDir()
	if file, ok := findTemporal(thisMachine(), cache); ok {
		return file, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making the download directory: %w", err)
	}
	unlock, err := lockWaiting(ctx, filepath.Join(cache, "temporal.lock"), func() {
		say.line("waiting for another process that is fetching Temporal")
	})
	if err != nil {
		return "", fmt.Errorf("waiting for another process that is fetching Temporal: %w", err)
	}
	defer unlock()
	return chooseTemporal(ctx, thisMachine(), cache, []fetch{
		{"download", func(ctx context.Context) error { return downloadTemporal(ctx, cache, say) }},
		{"build", func(ctx context.Context) error { return buildTemporal(ctx, cache, say) }},
	})
}

// downloadTemporal fetches the released CLI into cache. The SDK has no call for just that: it starts a server as well,
// which is stopped at once.
func downloadTemporal(ctx context.Context, cache string, say progress) error {
	say.line("no Temporal CLI found: downloading %s to %s, once", temporalVersion, cache)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	server, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		CachedDownload: testsuite.CachedDownload{Version: temporalVersion, DestDir: cache},
		ClientOptions:  &client.Options{Logger: quietLogger()},
		Stdout:         io.Discard,
		Stderr:         io.Discard,
	})
	if err != nil {
		return err
	}
	server.Client().Close()
	return server.Stop()
}

// buildTemporal installs the CLI from source into cache.
func buildTemporal(ctx context.Context, cache string, say progress) error {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		return errors.New("there is no go command")
	}
	// Built beside and renamed, so that what is in its place is whole.
	draft := filepath.Join(cache, "bin.new")
	var output bytes.Buffer
	cmd := exec.Command(goCommand, "install", "github.com/temporalio/cli/cmd/temporal@"+temporalVersion)
	cmd.Dir = cache
	cmd.Env = append(os.Environ(), "GOBIN="+draft, "GOOS=", "GOARCH=")
	cmd.Stdout, cmd.Stderr = &output, &output

	say.line("building the Temporal CLI %s from source: about 4 minutes, once", temporalVersion)
	defer everySoOften(5*time.Second, func(elapsed time.Duration) {
		say.line("  still building Temporal: %s", elapsed.Round(time.Second))
	})()
	if err := runToEnd(ctx, cmd); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(output.String()))
	}
	if err := os.MkdirAll(filepath.Dir(builtTemporal(cache)), 0o755); err != nil {
		return fmt.Errorf("keeping the Temporal CLI: %w", err)
	}
	if err := os.Rename(filepath.Join(draft, "temporal"), builtTemporal(cache)); err != nil {
		return fmt.Errorf("keeping the Temporal CLI: %w", err)
	}
	_ = os.Remove(draft)
	return nil
}

// everySoOften calls tell until stop is called.
func everySoOften(period time.Duration, tell func(elapsed time.Duration)) (stop func()) {
	began, quit, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				tell(time.Since(began))
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func quietLogger() log.Logger {
	return log.NewStructuredLogger(slog.New(slog.DiscardHandler))
}
