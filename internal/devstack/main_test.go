package devstack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary plays other processes when these are set.
const (
	asProcess  = "DEVSTACK_TEST_AS"  // which process: a key of otherProcesses
	processDir = "DEVSTACK_TEST_DIR" // the directory it works in
)

var otherProcesses = map[string]func(dir string) error{
	"dev":   playDev,
	"tests": playTests,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(asProcess); name != "" {
		if err := otherProcesses[name](os.Getenv(processDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const (
	patience = 30 * time.Second
	often    = 20 * time.Millisecond
)

// said collects progress lines.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func startPostgres(t *testing.T, o PostgresOptions) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Remove()) })
	return p
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec1(t *testing.T, url, sql string) {
	t.Helper()
	_, err := connect(t, url).Exec(t.Context(), sql)
	require.NoError(t, err)
}

// ask returns the one text value that sql selects.
func ask(t *testing.T, url, sql string) string {
	t.Helper()
	var answer string
	require.NoError(t, connect(t, url).QueryRow(t.Context(), sql).Scan(&answer))
	return answer
}
