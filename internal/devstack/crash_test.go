package devstack

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACrashedServerKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres")})
	exec1(t, p.URL(), `CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)`)
	open := connect(t, p.URL())
	_, err := open.Exec(t.Context(), `BEGIN; INSERT INTO kept VALUES (2)`)
	require.NoError(t, err)

	require.NoError(t, p.Crash())
	_, err = open.Exec(t.Context(), `COMMIT`)
	require.Error(t, err, "its session died with it")
	require.Error(t, pingPostgres(t.Context(), p.URL()))
	require.NoError(t, p.Crash(), "a server that is down cannot crash")

	require.NoError(t, p.Start(t.Context()))
	require.Equal(t, "1", ask(t, p.URL(), `SELECT string_agg(n::text, ' ') FROM kept`))
}

func TestAPausedTemporalAnswersNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	server := startTemporal(t, TemporalOptions{Headless: true})
	require.NoError(t, server.Pause())
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, pingTemporal(short, server.Address(), "default", nil))
	require.NoError(t, server.Resume())
	require.NoError(t, pingTemporal(t.Context(), server.Address(), "default", nil))

	require.NoError(t, server.Pause())
	require.NoError(t, server.Stop(), "a paused server can be stopped")
	require.NoError(t, server.Resume(), "and one that is down resumed")
}

func TestAProcessEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Process){
		"signal: killed":     (*Process).Kill,
		"signal: terminated": func(p *Process) { p.Stop(patience) },
		"exit status 3":      func(*Process) {},
	} {
		cmd := exec.Command("sleep", "1000")
		if strings.HasPrefix(name, "exit") {
			cmd = exec.Command("sh", "-c", "exit 3")
		}
		p, err := Launch(cmd)
		require.NoError(t, err)
		p.Pause()
		if strings.HasPrefix(name, "exit") {
			p.Resume()
		}
		end(p)
		<-p.Ended()
		require.Equal(t, name, p.End())
	}
	_, err := Launch(exec.Command(filepath.Join(t.TempDir(), "none")))
	require.Error(t, err)
}
