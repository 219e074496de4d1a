package bench

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARatioIsTheMedianOfTheTurns(t *testing.T) {
	t.Parallel()
	r := &Report{}
	// The machine slowed down after the first turn: in each turn the one was half of the other.
	of, to := &measured{rates: []float64{50, 10, 20}}, &measured{rates: []float64{100, 20, 40}}
	r.ratio("in turns", of.result("of", false), to.result("to", true), 0.85)
	r.ratio("not in turns", Result{PerSecond: 30}, Result{PerSecond: 40}, 0)
	r.ratio("without a floor", Result{PerSecond: 30}, Result{}, 0)
	require.Equal(t, []Ratio{{"in turns", 0.5, 0.85}, {"not in turns", 0.75, 0}}, r.Ratios)
	require.InDelta(t, 20, of.result("of", false).PerSecond, 0)
	require.Equal(t, []float64{10, 20, 50}, of.result("of", false).Turns)
}

func TestPhasesTakeTurnsAndNumberTheirCalls(t *testing.T) {
	t.Parallel()
	var order []string
	numbers := map[int64]bool{}
	phaseOf := func(name string) *phase {
		return &phase{name: name, callers: 1, before: func(context.Context) error { order = append(order, name); return nil }, do: func(_ context.Context, n int64) (int, error) {
			if name == "a" {
				require.False(t, numbers[n], "number %d is not new", n)
				numbers[n] = true
			}
			return 2, nil
		}}
	}
	results, err := alternate(t.Context(), 5*time.Millisecond, LineDisplay(&bytes.Buffer{}), phaseOf("a"), phaseOf("b"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "a", "b", "a", "b", "a", "b", "a", "b"}, order)
	require.Len(t, results[0].Turns, turns)
	require.Positive(t, results[1].PerSecond)
}

func TestTheFirstErrorEndsAPhase(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := measure(t.Context(), time.Hour, LineDisplay(&bytes.Buffer{}), &phase{name: "p", callers: 3, do: func(context.Context, int64) (int, error) { return 0, broken }})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "p: ")
}
