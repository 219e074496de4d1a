package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryFlowArrivesOnce(t *testing.T) {
	t.Parallel()
	f := newFinish([]string{"a", "b"})
	first := time.Now()
	f.arrive("a", first)
	f.arrive("a", first.Add(time.Second)) // its step ran twice
	f.arrive("another's", first)
	require.ErrorContains(t, f.wait(t.Context(), time.Millisecond), "1 of 2 flows have not ended")
	f.arrive("b", first.Add(time.Minute))
	require.NoError(t, f.wait(t.Context(), time.Hour))
	require.Equal(t, []time.Time{first, first.Add(time.Minute)}, f.at)
}
