package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/sealed"
)

// asPaylatch makes this test binary be paylatch itself, so that tests run it as a process.
const asPaylatch = "PAYLATCH_TEST_AS_PAYLATCH"

func TestMain(m *testing.M) {
	if os.Getenv(asPaylatch) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func paylatch(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asPaylatch+"=1")
	return cmd
}

// output runs a command to its end.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := paylatch(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s\n%s", &out, &errs)
	return out.String()
}

// failure runs a command that must fail, and gives what it said.
func failure(t *testing.T, args ...string) string {
	t.Helper()
	text, err := paylatch(args...).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", text)
	return string(text)
}

// devProcess is a paylatch dev with its own data directory.
type devProcess struct {
	cmd  *exec.Cmd
	said *safeBuffer
	info devInfo
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func startDev(t *testing.T, data string, args ...string) *devProcess {
	t.Helper()
	p := &devProcess{said: &safeBuffer{}}
	p.cmd = paylatch(append([]string{"dev", "--data", data, "--http", "127.0.0.1:0", "--temporal-port", "0", "--ui-port", "0"}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	// What the environment says of another Temporal does not reach a private one.
	p.cmd.Env = append(p.cmd.Env, "TEMPORAL_NAMESPACE=elsewhere", "TEMPORAL_API_KEY=none")
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // a test that failed half-way
			_ = p.cmd.Wait()
		}
	})
	require.Eventually(t, func() bool {
		return strings.Contains(p.said.String(), "Ctrl-C stops everything") || processGone(p.cmd.Process.Pid)
	}, 2*time.Minute, 50*time.Millisecond, "dev did not come up")
	require.Contains(t, p.said.String(), "Ctrl-C stops everything")
	var err error
	p.info, err = readDevInfo(data)
	require.NoError(t, err)
	return p
}

func (p *devProcess) interrupt(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, p.cmd.Wait(), p.said)
}

func processGone(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(status, []byte(") Z ")) || os.IsNotExist(err) && syscall.Kill(pid, 0) != nil
}

// children lists the processes that mention the data directory or have the dev as their parent.
func children(t *testing.T, data string) (list []string) {
	t.Helper()
	real, err := filepath.EvalSymlinks(filepath.Join(data, "postgres", "cluster"))
	if err != nil {
		real = data
	}
	out, err := exec.Command("ps", "-eo", "pid,args").Output()
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(out), "\n") {
		if (strings.Contains(line, data) || strings.Contains(line, real)) && !strings.Contains(line, "ps -eo") {
			list = append(list, line)
		}
	}
	return list
}

func TestDevFromNothingToACreditAndBack(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	dev := startDev(t, data)
	t.Cleanup(func() { removeCluster(data) })

	// The account of the demo.
	said := dev.said.String()
	for _, want := range []string{"three times at once", "200 {}", "PAID after", "journals       1: received:", "0.00 CNY -> 99.00 CNY", dev.info.HTTP, dev.info.TemporalUI} {
		require.Contains(t, said, want)
	}
	for _, secret := range []string{dev.info.APIKey, dev.info.Accounts["standard"].Secret, dev.info.DatabaseURL} {
		require.NotEmpty(t, secret)
		require.NotContains(t, said, secret, "secrets are in dev.json alone")
	}
	stat, err := os.Stat(filepath.Join(data, devInfoName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	for _, url := range []string{dev.info.HTTP + "/readyz", dev.info.TemporalUI, dev.info.Console} {
		response, err := http.Get(url)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, url)
	}

	// The commands, on the running dev's settings.
	m := &merchant{base: dev.info.HTTP, key: dev.info.APIKey}
	require.NoError(t, m.create(t.Context(), "o"))
	sent := output(t, "send", "--data", data, "--channel", "standard", "--account", "demo", "--out-trade-no", "o", "--amount", "9900", "--times", "30", "--parallel", "10")
	require.Contains(t, sent, "30 sent, 30 accepted, 0 refused")
	paid, err := m.awaitPaid(t.Context(), "o")
	require.NoError(t, err)
	require.Len(t, paid.JournalKeys, 1)
	require.Contains(t, output(t, "verify", "--data", data), "ok: ")
	require.NotContains(t, output(t, "migrate", "status", "--data", data), "pending")
	require.Contains(t, output(t, "migrate", "up", "--data", data), "up to date")

	shop := strings.Split(strings.TrimSpace(output(t, "tenant", "add", "shop", "--data", data)), "\n")
	key := shop[len(shop)-1]
	require.True(t, strings.HasPrefix(key, "plk_"), "the key stands alone on the last line")
	require.Contains(t, failure(t, "tenant", "add", "shop", "--data", data), "exists already")
	require.Contains(t, failure(t, "tenant", "add", "a/b", "--data", data), "letters, digits")
	config := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(config, toJSON(map[string]any{"secrets": []string{newSecret()}}), 0o600))
	output(t, "channel", "add", "--data", data, "--tenant", "shop", "--channel", "standard", "--account", "shop", "--config", config)
	require.Contains(t, failure(t, "channel", "add", "--data", data, "--tenant", "shop", "--channel", "standard", "--account", "shop", "--config", config), "exists already")
	theirs := &merchant{base: dev.info.HTTP, key: key}
	require.NoError(t, theirs.create(t.Context(), "o"), "a number of another tenant is another order")
	output(t, "send", "--data", data, "--channel", "standard", "--account", "shop", "--out-trade-no", "o", "--amount", "9900")
	_, err = theirs.awaitPaid(t.Context(), "o")
	require.NoError(t, err)

	// A key that may only take payments, until it is revoked.
	lines := strings.Split(strings.TrimSpace(output(t, "tenant", "key", "add", "--data", data, "--tenant", "shop", "--scopes", "write,read", "--name", "till")), "\n")
	till := &merchant{base: dev.info.HTTP, key: lines[len(lines)-1]}
	require.NoError(t, till.create(t.Context(), "o-till"))
	require.ErrorContains(t, till.call(t.Context(), http.MethodGet, "/v1/audit", nil, &struct{}{}), "scope_missing")
	listed := output(t, "tenant", "key", "list", "--data", data, "--tenant", "shop")
	require.Regexp(t, till.key[:10]+` +till +read,write +\S+ +20\S+ +-`, listed)
	require.NotContains(t, listed, till.key)
	output(t, "tenant", "key", "revoke", "--data", data, "--tenant", "shop", till.key[:10])
	require.ErrorContains(t, till.create(t.Context(), "o-late"), "unauthorized")
	require.Contains(t, failure(t, "tenant", "key", "revoke", "--data", data, "--tenant", "demo", till.key[:10]), "no such API key")
	require.Contains(t, failure(t, "tenant", "key", "add", "--data", data, "--tenant", "shop", "--scopes", "root"), "read, write, refund and admin")
	require.Contains(t, failure(t, "tenant", "key", "add", "--data", data, "--tenant", "nobody", "--scopes", "read"), "not found")
	var record struct {
		Items []struct{ Actor, Action, Target string }
	}
	require.NoError(t, theirs.call(t.Context(), http.MethodGet, "/v1/audit", nil, &record))
	require.Equal(t, "api_key_revoked", record.Items[0].Action)
	require.Equal(t, till.key[:10], record.Items[0].Target)
	require.Contains(t, record.Items[0].Actor, "command line")

	wrongKey := filepath.Join(t.TempDir(), "master.key")
	require.NoError(t, os.WriteFile(wrongKey, []byte(sealed.NewKey()), 0o600))
	require.Contains(t, failure(t, "serve", "--data", data, "--http", "127.0.0.1:0", "--master-key-file", wrongKey), "another master key")
	// A login of the merchants' API that sees all tenants: the engine's role, and one that may do anything.
	require.Contains(t, failure(t, "serve", "--data", data, "--http", "127.0.0.1:0", "--api-database-url", dev.info.DatabaseURL), "row-level security does not bind")
	require.Contains(t, failure(t, "dev", "--data", data, "--no-demo", "--http", "127.0.0.1:0", "--temporal-port", "0", "--ui-port", "0"), "paylatch:", "one dev per data directory")
	dev.interrupt(t)
	require.Empty(t, children(t, data), "no process is left behind")

	// It starts again where it was.
	again := startDev(t, data, "--no-demo")
	require.Equal(t, dev.info.APIKey, again.info.APIKey)
	m = &merchant{base: again.info.HTTP, key: again.info.APIKey}
	balance, err := m.balance(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(2*demoAmount), balance)
	output(t, "send", "--data", data, "--channel", "standard", "--account", "demo", "--out-trade-no", "o", "--amount", "9900", "--times", "3")
	balance, err = m.balance(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(2*demoAmount), balance, "and credits nothing twice")

	// A process that is killed takes its servers along.
	require.NoError(t, again.cmd.Process.Kill())
	_ = again.cmd.Wait() // killed, as it should be
	require.Eventually(t, func() bool { return len(children(t, data)) == 0 }, 20*time.Second, 50*time.Millisecond)
}

// removeCluster takes away the cluster that a dev as root keeps outside of its data directory.
func removeCluster(data string) {
	if real, err := filepath.EvalSymlinks(filepath.Join(data, "postgres", "cluster")); err == nil {
		_ = os.RemoveAll(filepath.Dir(real)) // what stays is a temporary directory
	}
}

func TestATakenPortIsAClearError(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	said := failure(t, "dev", "--data", t.TempDir(), "--http", listener.Addr().String())
	require.Contains(t, said, "is taken")
	require.Contains(t, said, "--http")
}

func TestACommandWithoutItsSettingsSaysWhatToSet(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"PAYLATCH_DATABASE_URL":       {"verify"},
		"PAYLATCH_OWNER_DATABASE_URL": {"migrate", "up"},
		"PAYLATCH_MASTER_KEY":         {"serve"},
		"paylatch dev --data":         {"verify", "--data", t.TempDir()},
		"there are payments, ledger":  {"worker", "--queues", "payment"},
		"cannot be read":              {"verify", "--database-url", "postgres://u:hunter2@host:port/db"},
	} {
		said := failure(t, args...)
		require.Contains(t, said, want, args)
		require.NotContains(t, said, "hunter2", "a password is never shown")
	}
}

func TestEveryFlagHasHelpAndSecretsAreNoFlags(t *testing.T) {
	t.Parallel()
	parser, err := newParser()
	require.NoError(t, err)
	for _, node := range parser.Model.Leaves(true) {
		require.NotEmpty(t, node.Help, node.FullPath())
		for _, flag := range node.Flags {
			require.NotEmpty(t, flag.Help, "%s --%s", node.FullPath(), flag.Name)
			for _, word := range []string{"secret", "password", "api-key"} {
				require.NotContains(t, flag.Name, word)
			}
		}
	}
	var info map[string]any
	require.NoError(t, json.Unmarshal(toJSON(devInfo{}), &info))
	for _, key := range []string{"http", "console", "temporal", "temporal_ui", "database_url", "tenant", "api_key", "accounts"} {
		require.Contains(t, info, key)
	}
}
