package devstack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// report is what a played process says about itself in one line of its output.
type report struct {
	URL  string
	PIDs []int
}

func (r report) print() error { return json.NewEncoder(os.Stdout).Encode(r) }

// playDev is a `paylatch dev`: it starts both servers in dir, stores a row, and then does nothing until it is killed.
func playDev(dir string) error {
	ctx := context.Background()
	p, err := StartPostgres(ctx, PostgresOptions{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return err
	}
	temporal, err := StartTemporal(ctx, TemporalOptions{Dir: filepath.Join(dir, "temporal"), Headless: true})
	if err != nil {
		return err
	}
	if err := createDatabase(ctx, p.URL(), "stored"); err != nil {
		return err
	}
	if err := (report{p.URL(), []int{p.server.pid(), temporal.server.pid()}}).print(); err != nil {
		return err
	}
	return waitForTheParent()
}

// playTests is a test run with a TestMain as other packages have it, whose tests never end.
func playTests(string) error {
	os.Exit(Main(runFunc(func() int {
		err := report{TestPostgres().URL(), []int{TestPostgres().server.pid(), TestTemporal().server.pid()}}.print()
		if err == nil {
			err = waitForTheParent()
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}), Needs{Postgres: true, Temporal: true}))
	return nil
}

// waitForTheParent keeps a played process from outliving the test that plays it.
func waitForTheParent() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return errors.Join(errors.New("the parent has gone"), err)
}

type runFunc func() int

func (f runFunc) Run() int { return f() }

// play starts the test binary as another process and returns once it has reported.
func play(t *testing.T, name, dir string) (*exec.Cmd, report) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+name, processDir+"="+dir, "TMPDIR="+dir,
		testDatabaseURL+"=", testTemporalAddress+"=")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = stdin.Close() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(line, &r))
	for _, pid := range r.PIDs {
		require.NotEmpty(t, commandLine(pid))
	}
	return cmd, r
}

// openDir is a temporary directory that every user may pass through, as the one of a played process must be.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devstack-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return commandLine(pid) == "" }, patience, often, "process %d", pid)
	}
}

func TestNoServerOutlivesAKilledProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells children of their parent's death")
	}
	t.Parallel()
	dev, r := play(t, "dev", openDir(t))
	require.NoError(t, dev.Process.Kill())
	require.Error(t, dev.Wait())
	requireGone(t, r.PIDs)
}

func TestTheNextRunTakesOverFromAKilledProcess(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	dev, r := play(t, "dev", dir)
	require.NoError(t, dev.Process.Kill())
	require.Error(t, dev.Wait())

	// At once: the orphans are still there, or going down.
	p := startPostgres(t, PostgresOptions{Dir: filepath.Join(dir, "postgres")})
	require.Equal(t, "true", ask(t, p.URL(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'stored')::text`))
	startTemporal(t, TemporalOptions{Dir: filepath.Join(dir, "temporal"), Headless: true})
	requireGone(t, r.PIDs)
}

func TestAnInterruptedTestRunLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	tests, r := play(t, "tests", dir)
	require.NotEmpty(t, must(filepath.Glob(filepath.Join(dir, testDirPrefix+"*"))))
	require.NoError(t, tests.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, tests.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
	requireGone(t, r.PIDs)
	require.Empty(t, must(os.ReadDir(dir)), "the data is gone as well")
}

// Main keeps its servers in package variables, so what follows is one test, and not a parallel one.
func TestMainGivesTheTestsTheirServers(t *testing.T) {
	t.Setenv(testDatabaseURL, "")
	t.Setenv(testTemporalAddress, "")
	require.PanicsWithValue(t, "devstack.TestPostgres: the package's TestMain must call devstack.Main with Needs{Postgres: true}",
		func() { TestPostgres() })
	require.Panics(t, func() { TestTemporal() })

	var pids []int
	code := Main(runFunc(func() int {
		require.Equal(t, "paylatch", ask(t, TestPostgres().URL(), `SELECT current_database()::text`))
		require.Equal(t, map[string]string{"Tenant": "Keyword"}, pick(attributesOf(t, TestTemporal().Address()), "Tenant"))
		pids = []int{TestPostgres().server.pid(), TestTemporal().server.pid()}

		// A second run uses the servers it is given, and leaves them running.
		given, address := TestPostgres(), TestTemporal()
		t.Setenv(testDatabaseURL, given.URL())
		t.Setenv(testTemporalAddress, address.Address())
		require.Equal(t, 4, Main(runFunc(func() int {
			require.Equal(t, given.URL(), TestPostgres().URL())
			require.True(t, TestPostgres().Given())
			require.True(t, TestTemporal().Given())
			return 4
		}), Needs{Postgres: true, Temporal: true}))
		servers.postgres, servers.temporal = given, address
		require.Equal(t, "1", ask(t, given.URL(), `SELECT 1::text`))
		return 3
	}), Needs{Postgres: true, Temporal: true, SearchAttributes: map[string]string{"Tenant": "Keyword"}})
	require.Equal(t, 3, code, "the exit code of the tests")
	requireGone(t, pids)

	t.Setenv(testDatabaseURL, "")
	require.PanicsWithValue(t, "a test's panic", func() {
		Main(runFunc(func() int {
			pids = []int{TestPostgres().server.pid()}
			panic("a test's panic")
		}), Needs{Postgres: true})
	})
	requireGone(t, pids)
}

func TestForgottenDataOfDeadTestRunsIsRemoved(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	make := func(name string, age time.Duration) string {
		dir := filepath.Join(temp, testDirPrefix+name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, testDirLock), nil, 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(dir, then, then))
		return dir
	}
	dead, young, held := make("dead", time.Hour), make("young", time.Minute), make("held", time.Hour)
	unlock, err := lock(filepath.Join(held, testDirLock))
	require.NoError(t, err)
	defer unlock()

	removeForgotten(temp)
	require.NoDirExists(t, dead)
	require.DirExists(t, young)
	require.DirExists(t, held)
}
