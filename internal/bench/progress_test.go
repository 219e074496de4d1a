package bench

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABarTellsRateAndWhatIsLeft(t *testing.T) {
	t.Parallel()
	now := time.Now()
	counted := &Bar{name: "callbacks", total: 200, begin: now.Add(-5 * time.Second)}
	counted.Add(50)
	require.Equal(t, "  callbacks [######..................]  25%  50 of 200  10/s  15s left", counted.text(now))
	timed := &Bar{name: "postings", last: 8 * time.Second, begin: now.Add(-6 * time.Second)}
	timed.Add(600)
	require.Equal(t, "  postings [##################......]  75%  100/s  2s left", timed.text(now))
	require.Equal(t, "  callbacks [########################] 100%  200 of 200  40/s", func() string { counted.Add(150); return counted.text(now) }())
}

func TestLinesStandAboveTheBarOfATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := &Display{out: &out, terminal: true}
	bar := d.Count("callbacks", 2)
	_, err := d.Write([]byte("a result\n"))
	require.NoError(t, err)
	bar.End()
	bar.End() // a second time changes nothing
	require.Regexp(t, `(?s)^\r\x1b\[2K  callbacks .* 0 of 2.*\r\x1b\[2Ka result\n\r\x1b\[2K  callbacks .*\r\x1b\[2K$`, out.String())
}

func TestWithoutATerminalAFastPhaseIsNoLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	LineDisplay(&out).Count("callbacks", 2).End()
	require.Empty(t, out.String())
}
