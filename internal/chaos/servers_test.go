package chaos

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// puppet is a server that notes what is done to it.
type puppet struct {
	mu    sync.Mutex
	done  []string
	fails int // so many starts
}

func (p *puppet) note(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, what)
	if what == "start" && p.fails > 0 {
		p.fails--
		return errors.New("the port is taken")
	}
	return nil
}

func (p *puppet) Kill() error                 { return p.note("kill") }
func (p *puppet) Stop() error                 { return p.note("stop") }
func (p *puppet) Start(context.Context) error { return p.note("start") }
func (p *puppet) Pause() error                { return p.note("pause") }
func (p *puppet) Resume() error               { return p.note("resume") }

func TestAPlanIsCarriedOutAndEverythingIsBroughtBack(t *testing.T) {
	t.Parallel()
	api, worker, database := &puppet{}, &puppet{fails: 1}, &puppet{}
	volleys := 0
	s := &striker{
		servers: map[target]server{{API, 1}: api, {Worker, 2}: worker, {PostgreSQL, 1}: database},
		tell:    func(string, ...any) {}, volley: func() { volleys++ }, spans: map[target][]span{},
	}
	begin := time.Now()
	require.NoError(t, s.run(t.Context(), []Round{
		{Faults: []Fault{{Part: API, Instance: 1, How: Pause}}},
		{Faults: []Fault{{Part: Worker, Instance: 2, How: Kill}}},
		{Faults: []Fault{{Part: PostgreSQL, Instance: 1, How: Restart}}},
	}, begin))
	require.Equal(t, []string{"pause", "resume"}, api.done)
	require.Equal(t, []string{"kill", "start", "start"}, worker.done, "tried again until it is back")
	require.Equal(t, []string{"stop", "start"}, database.done)
	require.Equal(t, 3, volleys, "each blow falls on work")
	now := time.Now()
	require.True(t, s.struck(target{API, 1}, span{begin, now}))
	require.False(t, s.struck(target{API, 1}, span{begin.Add(-time.Hour), begin}), "before it was")
	require.False(t, s.struck(target{API, 2}, span{begin, now}), "another one was not")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.run(ended, []Round{{At: time.Hour}}, begin), context.Canceled)
}

func newProcess(t *testing.T, script string) *process {
	t.Helper()
	p := &process{
		name: "it", logFile: filepath.Join(t.TempDir(), "it.log"), tell: func(string, ...any) {},
		command: func(output *os.File) *exec.Cmd {
			cmd := exec.Command("sh", "-c", script)
			cmd.Stdout, cmd.Stderr = output, output
			return cmd
		},
	}
	t.Cleanup(func() {
		require.NoError(t, p.Kill())
		p.watched.Wait()
	})
	return p
}

func TestAProcessThatEndsByItselfIsStartedAgainAndNoted(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "echo said; exit 3")
	require.NoError(t, p.Start(t.Context()))
	require.Eventually(t, func() bool { return len(p.endsByItself()) >= 2 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "exit status 3", p.endsByItself()[0])
	text, err := os.ReadFile(p.logFile)
	require.NoError(t, err)
	require.Contains(t, string(text), "said\nsaid\n", "one log for all its lives")
}

func TestAProcessThatIsStruckStaysDownUntilItIsStarted(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "exec sleep 1000")
	for _, end := range []func() error{p.Kill, p.Stop, func() error { return errors.Join(p.Pause(), p.Resume(), p.Pause(), p.Stop()) }} {
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, p.Start(t.Context()), "it runs already")
		run := p.running
		require.NotNil(t, run)
		require.NoError(t, end())
		<-run.Ended()
		require.Nil(t, p.running)
	}
	require.NoError(t, errors.Join(p.Kill(), p.Stop(), p.Pause(), p.Resume()), "down is down")
	require.Empty(t, p.endsByItself())
}

func TestProcessesAreLedToNoOtherServers(t *testing.T) {
	t.Setenv("TEMPORAL_NAMESPACE", "elsewhere")
	t.Setenv("PAYLATCH_DATABASE_URL", "postgres://elsewhere")
	t.Setenv("PAYLATCH_TEST_AS_PAYLATCH", "1")
	env := cleanEnvironment()
	require.True(t, slices.Contains(env, "PAYLATCH_TEST_AS_PAYLATCH=1"))
	require.NotContains(t, env, "TEMPORAL_NAMESPACE=elsewhere")
	require.NotContains(t, env, "PAYLATCH_DATABASE_URL=postgres://elsewhere")
}
