package devstack

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestRowsSurviveEveryWayTheServerCanEnd(t *testing.T) {
	t.Parallel()
	dir, progress := filepath.Join(t.TempDir(), "postgres"), &said{}
	p := startPostgres(t, PostgresOptions{Dir: dir, Progress: progress})
	exec1(t, p.URL(), `CREATE TABLE money (fen bigint); INSERT INTO money VALUES (1)`)
	rows := func(p *Postgres) string { return ask(t, p.URL(), `SELECT count(*)::text FROM money`) }

	// Stop, Start.
	url := p.URL()
	require.NoError(t, p.Stop())
	require.NoError(t, p.Stop(), "stopping twice")
	_, err := pgx.Connect(t.Context(), url)
	require.ErrorContains(t, err, "connection refused")
	squatter, err := net.Listen("tcp", localAddress(p.port))
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(t.Context()), "is taken by another program")
	require.NoError(t, squatter.Close())
	require.NoError(t, p.Start(t.Context()))
	require.Equal(t, url, p.URL(), "same port and password")
	require.Equal(t, "1", rows(p))

	// Kill, Start: the log shows that it was a crash.
	exec1(t, p.URL(), `INSERT INTO money VALUES (2)`)
	require.NoError(t, p.Kill())
	_, err = pgx.Connect(t.Context(), url)
	require.ErrorContains(t, err, "connection refused")
	require.NoError(t, p.Start(t.Context()))
	require.Equal(t, "2", rows(p))
	log, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "automatic recovery in progress")

	// A stranger kills the postmaster: the supervisor starts it again.
	exec1(t, p.URL(), `INSERT INTO money VALUES (3)`)
	victim := p.server.pid()
	require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
	require.Eventually(t, func() bool { return strings.Contains(progress.String(), "PostgreSQL is back") }, patience, often)
	require.NotEqual(t, victim, p.server.pid())
	require.Equal(t, "3", rows(p))
	require.Contains(t, progress.String(), "PostgreSQL ended unexpectedly (signal: killed): starting it again in 1s")

	// Another process later uses the same directory.
	require.NoError(t, p.Stop())
	again := startPostgres(t, PostgresOptions{Dir: dir})
	require.Equal(t, "3", rows(again))

	secret := strings.TrimSpace(string(must(os.ReadFile(filepath.Join(dir, "password")))))
	require.NotContains(t, progress.String(), secret)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestAClusterIsDurableWhateverItsConfigurationSays(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres"), Database: "some shop"})
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		exec1(t, p.URL(), `ALTER SYSTEM SET `+setting+` = off`)
	}
	exec1(t, p.URL(), `ALTER SYSTEM SET listen_addresses = '*'`)
	require.NoError(t, p.Stop())
	require.NoError(t, p.Start(t.Context()))

	for setting, want := range map[string]string{
		"fsync":                   "on",
		"synchronous_commit":      "on",
		"full_page_writes":        "on",
		"data_checksums":          "on",
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "200",
		"server_encoding":         "UTF8",
		"password_encryption":     "scram-sha-256",
	} {
		require.Equal(t, want, ask(t, p.URL(), `SHOW `+setting), setting)
	}
	require.Equal(t, "some shop", ask(t, p.URL(), `SELECT current_database()::text`))
	require.Equal(t, "ä", ask(t, p.URL(), `SELECT lower('Ä')`), "letters beyond ASCII")

	wrong := strings.Replace(p.URL(), "@", "x@", 1)
	require.ErrorIs(t, pingPostgres(t.Context(), wrong), errHopeless, "the password is checked")
	info, err := os.Stat(p.cluster.passwordFile())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestADirectoryIsUsedByOneProcessAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	p := startPostgres(t, PostgresOptions{Dir: dir})
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir})
	require.EqualError(t, err, "the PostgreSQL data in "+dir+" is in use by another paylatch: stop that one, or choose another "+
		"directory with --data")
	require.Equal(t, "1", ask(t, p.URL(), `SELECT 1::text`), "the first is not disturbed")
}

func TestASetUpThatWasCutShortIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	c := &cluster{dir: dir}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	// What a killed initdb leaves: the password, and half a cluster beside its place.
	require.NoError(t, os.WriteFile(c.passwordFile(), []byte("kept"), 0o600))
	require.NoError(t, place(c))
	require.NoError(t, os.MkdirAll(filepath.Join(c.data+".new", "base"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(c.data+".new", "PG_VERSION"), []byte("15\n"), 0o600))

	p := startPostgres(t, PostgresOptions{Dir: dir})
	require.Contains(t, p.URL(), ":kept@")
	require.Equal(t, c.data, p.cluster.data)
	require.NoDirExists(t, c.data+".new")
	require.NoFileExists(t, c.data+".new.password")
}

// place settles where the cluster of c goes, as a start would.
func place(c *cluster) (err error) {
	if c.owner, err = clusterOwner(); err != nil {
		return err
	}
	return c.place()
}

func TestAFailedSetUpLeavesNoClusterBehind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := StartPostgres(ctx, PostgresOptions{Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(dir, "cluster", "PG_VERSION"))

	p := startPostgres(t, PostgresOptions{Dir: dir})
	require.Equal(t, "1", ask(t, p.URL(), `SELECT 1::text`))
}

func TestAMissingPasswordIsToldNotReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	p := startPostgres(t, PostgresOptions{Dir: dir})
	require.NoError(t, p.Stop())
	require.NoError(t, os.Remove(p.cluster.passwordFile()))
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir})
	require.ErrorContains(t, err, "its password, is missing")
	require.NoFileExists(t, p.cluster.passwordFile())
}

func TestATakenPostgresPortIsNamed(t *testing.T) {
	t.Parallel()
	port, address := takePort(t)
	c := &cluster{dir: openDir(t)}
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: c.dir, Port: port})
	require.ErrorContains(t, err, "port "+address+" on 127.0.0.1 is taken by another program")
	require.NoDirExists(t, c.link(), "nothing is made before the port is known to be free")
}

func takePort(t *testing.T) (port int, text string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, text, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return l.Addr().(*net.TCPAddr).Port, text
}

func TestAPausedServerAnswersNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres")})
	session := connect(t, p.URL())
	require.NoError(t, p.Pause())

	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, pingPostgres(short, p.URL()), context.DeadlineExceeded, "no new session")

	answered := make(chan error, 1)
	go func() {
		var one int
		answered <- session.QueryRow(t.Context(), `SELECT 1`).Scan(&one)
	}()
	require.Never(t, func() bool { return len(answered) > 0 }, 300*time.Millisecond, often, "an open session hangs")
	require.NoError(t, p.Resume())
	require.NoError(t, <-answered, "and goes on where it was")
	require.Equal(t, "1", ask(t, p.URL(), `SELECT 1::text`))

	require.NoError(t, p.Pause())
	require.NoError(t, p.Stop(), "a paused server can be stopped")
	log, err := os.ReadFile(p.cluster.logFile())
	require.NoError(t, err)
	require.Contains(t, string(log), "database system is shut down", "and that in order")
	require.ErrorContains(t, p.Pause(), "does not run")
}

func TestAGivenPostgresIsNeverTouched(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres")})
	given, err := StartPostgres(t.Context(), PostgresOptions{URL: p.URL()})
	require.NoError(t, err)
	require.True(t, given.Given())
	require.Equal(t, p.URL(), given.URL())
	require.NoError(t, given.Stop())
	require.NoError(t, given.Remove())
	require.ErrorIs(t, given.Kill(), errGivenPostgres)
	require.ErrorIs(t, given.Pause(), errGivenPostgres)
	require.NoError(t, given.Start(t.Context()))
	require.Equal(t, "1", ask(t, p.URL(), `SELECT 1::text`))

	require.NoError(t, p.Stop())
	_, err = StartPostgres(t.Context(), PostgresOptions{URL: p.URL()})
	require.ErrorContains(t, err, "reaching the PostgreSQL given by its URL")
	require.NotContains(t, err.Error(), strings.TrimSpace(string(must(os.ReadFile(p.cluster.passwordFile())))))
}
