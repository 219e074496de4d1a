package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheSameSeedGivesTheSamePlan(t *testing.T) {
	t.Parallel()
	require.Equal(t, NewPlan(7, time.Minute), NewPlan(7, time.Minute))
	require.NotEqual(t, NewPlan(7, time.Minute), NewPlan(8, time.Minute))
	short, long := NewPlan(7, time.Minute), NewPlan(7, time.Hour)
	require.Greater(t, len(long), len(short))
	require.Equal(t, short, long[:len(short)], "a longer plan begins with the shorter one")
}

func TestEveryPartIsStruckInEveryWay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		counts := count(NewPlan(seed, 2*time.Minute))
		for _, part := range Parts() {
			for _, how := range Hows() {
				require.Positive(t, counts[part][how], "seed %d: %s of %s", seed, how, part)
			}
		}
		require.Len(t, count(NewPlan(seed, 75*time.Second)), len(Parts()), "seed %d: a short run strikes every part", seed)
	}
}

func TestRoundsStrikeOneToThreePartsAndLeaveQuietBetween(t *testing.T) {
	t.Parallel()
	const length = 10 * time.Minute
	sizes := map[int]bool{}
	both := false
	for seed := range uint64(20) {
		var over time.Duration
		for _, round := range NewPlan(seed, length) {
			require.GreaterOrEqual(t, round.At, over+shortGap, "the one before is over, and its parts had time to come back")
			over = round.At + round.length()
			require.LessOrEqual(t, over, length)
			ways := map[Part]How{}
			struck := map[target]bool{}
			for _, f := range round.Faults {
				at := target{f.Part, f.Instance}
				require.False(t, struck[at], "nothing is struck twice at once")
				struck[at] = true
				if how, there := ways[f.Part]; there {
					require.Equal(t, how, f.How)
					both = true
				}
				ways[f.Part] = f.How
				require.Contains(t, []int{1, f.Part.instances()}, f.Instance)
				require.GreaterOrEqual(t, f.Away, shortAway)
				require.LessOrEqual(t, f.Away, longAway)
				require.Less(t, f.Into, volley)
			}
			sizes[len(ways)] = true
		}
	}
	require.Equal(t, map[int]bool{1: true, 2: true, 3: true}, sizes)
	require.True(t, both, "sometimes all instances of a part are struck")
}

func TestARoundReadsAsItIsPlayed(t *testing.T) {
	t.Parallel()
	round := Round{At: 12300 * time.Millisecond, Faults: []Fault{
		{Part: API, Instance: 2, How: Pause, Away: 1500 * time.Millisecond}, {Part: PostgreSQL, Instance: 1, How: Kill, Away: time.Second},
	}}
	require.Equal(t, "  12.3s  pause api-2 for 1.5s, kill postgres for 1.0s", round.String())
}
