package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAQuantileIsOffByLessThanAPercent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var exact []time.Duration
	for range 10_000 {
		d := time.Duration(float64(50*time.Microsecond) * (1 + 1000*random.ExpFloat64()))
		h.Add(d)
		exact = append(exact, d)
	}
	slices.Sort(exact)
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
		want := exact[max(1, int(q*10_000))-1]
		require.InEpsilon(t, float64(want), float64(h.Quantile(q)), 0.01, "quantile %g", q)
	}
}

func TestAHistogramTakesWhatIsOutOfItsRange(t *testing.T) {
	t.Parallel()
	var h Histogram
	h.Add(-time.Second) // a clock that was set back
	require.Less(t, h.Quantile(0.5), 2*time.Microsecond)
	h.Add(time.Hour)
	require.Greater(t, h.Quantile(1), time.Minute)
}

func TestAHistogramWithoutLatenciesHasNone(t *testing.T) {
	t.Parallel()
	require.Zero(t, (&Histogram{}).Quantile(0.5))
}

func TestMergedHistogramsAreOne(t *testing.T) {
	t.Parallel()
	var low, high Histogram
	for range 9 {
		low.Add(time.Millisecond)
	}
	high.Add(time.Second)
	low.Merge(&high)
	require.InEpsilon(t, float64(time.Millisecond), float64(low.Quantile(0.9)), 0.01)
	require.InEpsilon(t, float64(time.Second), float64(low.Quantile(0.91)), 0.01)
}

func TestASeriesKeepsWhatWasDoneWhen(t *testing.T) {
	t.Parallel()
	var s, other Series
	s.Add(250*time.Millisecond, 3)
	s.Add(-time.Millisecond, 1) // begun with the phase
	other.Add(0, 2)
	other.Add(450*time.Millisecond, 4)
	s.Merge(&other)
	require.Equal(t, []int64{3, 0, 3, 0, 4}, s.counts)
	s.Append(&Series{[]int64{7}})
	require.Equal(t, []int64{3, 0, 3, 0, 4, 7}, s.counts)
}
