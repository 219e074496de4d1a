package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seen is a result with latencies of 1 to 100 ms, done evenly over 20 seconds.
func seen(name string, floor bool) Result {
	m := &measured{rates: []float64{5}}
	for i := range 100 {
		m.latencies.Add(time.Duration(i+1) * time.Millisecond)
		m.over.Add(time.Duration(i)*200*time.Millisecond, 1)
	}
	return m.result(name, floor)
}

func TestAPlotIsOneDocumentThatAsksForNothing(t *testing.T) {
	t.Parallel()
	r := &Report{Benchmark: "callbacks", Channel: "standard"}
	r.Results = []Result{seen("a flow & its step, apart", true), seen("payments <credited>, apart", false), {Name: "pgbench, the same SQL", PerSecond: 3197}}
	r.Ratios = []Ratio{{"met", 0.9, 0.85}, {"missed", 0.5, 0.85}, {"told", 0.4, 0}}
	var out bytes.Buffer
	require.NoError(t, Plot(&out, "two CPUs", r, &Report{Benchmark: "empty"}))

	decoder := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	texts, classes := map[string]bool{}, map[string]int{}
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.CharData:
			texts[strings.TrimSpace(string(token))] = true
		case xml.StartElement:
			for _, a := range token.Attr {
				if a.Name.Local == "class" {
					classes[token.Name.Local+" "+a.Value]++
				}
				require.NotContains(t, []string{"href", "src"}, a.Name.Local)
				require.NotContains(t, a.Value, "NaN")
			}
		}
	}
	for _, text := range []string{"a flow & its step", "payments <credited>", "3,197/s", "p50 50.3 · p99 99.4 ms", "0.90, goal 0.85", "0.40", "two CPUs"} {
		require.True(t, texts[text], "%q in %v", text, texts)
	}
	require.Equal(t, 2, classes["path ours"])  // latencies and over time
	require.Equal(t, 2, classes["path floor"]) // the same of the floor
	require.Equal(t, 1, classes["rect good"])
	require.Equal(t, 1, classes["rect bad"])
	require.Equal(t, 1, classes["rect told"])
	require.NotContains(t, strings.ReplaceAll(out.String(), `xmlns="http://www.w3.org/2000/svg"`, ""), "://")
	require.NotContains(t, out.String(), "url(")
}

func TestNumbersOfAxes(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 19: 20, 60: 100, 1999: 2000, 5001: 10000} {
		require.InDelta(t, want, niceAbove(v), 1e-9, "above %g", v)
	}
	for v, want := range map[float64]string{0.02: "0.02", 1: "1", 1.5: "1.5", 12.34: "12.3", 512.3: "512"} {
		require.Equal(t, want, short(v))
	}
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, thousands(v))
	}
}

func TestTheScaleHoldsWhatIsMeasured(t *testing.T) {
	t.Parallel()
	s := latencyScale([]Result{seen("a", false), {Name: "without latencies"}})
	require.LessOrEqual(t, latencyAt(float64(s.first*perOctave)), time.Millisecond)
	require.GreaterOrEqual(t, latencyAt(float64(s.last*perOctave)), 100*time.Millisecond)
	require.InDelta(t, latencyLeft, s.x(0), 1e-9)
	require.InDelta(t, latencyRight, s.x(time.Hour), 1e-9)
}
