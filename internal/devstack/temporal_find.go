package devstack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// temporalVersion is the CLI that is fetched when there is none: it brings server 1.29 with the UI.
const temporalVersion = "v1.5.1"

// findTemporal decides which installed Temporal CLI is used: the one on PATH, else one where the go command installs
// programs, else one that we fetched into cache earlier.
func findTemporal(m machine, cache string) (file string, ok bool) {
	if file, found := m.onPath("temporal"); found {
		return file, true
	}
	var places []string
	for _, dir := range m.goBin {
		places = append(places, filepath.Join(dir, "temporal"))
	}
	places = append(places, builtTemporal(cache))
	places = append(places, m.glob(filepath.Join(cache, "temporal-cli-"+temporalVersion+"*"))...)
	for _, file := range places {
		if m.isProgram(file) {
			return file, true
		}
	}
	return "", false
}

func builtTemporal(cache string) string { return filepath.Join(cache, "bin", "temporal") }

// fetch is one way to get a program onto the machine.
type fetch struct {
	what string // completes "the … failed"
	run  func(ctx context.Context) error
}

// chooseTemporal returns the CLI to use, fetching it in the first way that works if there is none. The error is one
// sentence that says what to do.
func chooseTemporal(ctx context.Context, m machine, cache string, fetches []fetch) (file string, err error) {
	var failures []error
	for _, f := range fetches {
		if file, ok := findTemporal(m, cache); ok {
			return file, nil
		}
		err := f.run(ctx)
		if ctx.Err() != nil {
			return "", fmt.Errorf("getting Temporal: %w", ctx.Err())
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("the %s failed: %w", f.what, err))
		}
	}
	if file, ok := findTemporal(m, cache); ok {
		return file, nil
	}
	return "", fmt.Errorf("no Temporal CLI found (%w): install it (https://docs.temporal.io/cli, or macOS: brew install "+
		"temporal, or with Go: go install github.com/temporalio/cli/cmd/temporal@%s) or pass --temporal-address",
		oneLine(failures), temporalVersion)
}

// oneLine joins errors in one sentence.
func oneLine(errs []error) error {
	var joined error
	for _, err := range errs {
		if joined == nil {
			joined = err
			continue
		}
		joined = fmt.Errorf("%w; %w", joined, err)
	}
	if joined == nil {
		return errors.New("and no way to fetch it")
	}
	return joined
}
