package share_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/share"
)

func parts(weights ...int64) (list []share.Part) {
	for i, w := range weights {
		list = append(list, share.Part{Key: string(rune('a' + i)), Weight: w})
	}
	return list
}

func TestASplitIsExact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		amount  int64
		weights []int64
		rest    int64
		want    []int64
		left    int64
	}{
		"645 at 30/70: a tie goes to the smaller key":   {645, []int64{30, 70}, 0, []int64{194, 451}, 0},
		"the same in basis points":                      {645, []int64{3000, 7000}, 0, []int64{194, 451}, 0},
		"645, 30 of 100: before the merchant":           {645, []int64{30}, 70, []int64{194}, 451},
		"100 at three thirds":                           {100, []int64{1, 1, 1}, 0, []int64{34, 33, 33}, 0},
		"100 at three thirds of 9999":                   {100, []int64{3333, 3333, 3333}, 1, []int64{34, 33, 33}, 0},
		"1 over three":                                  {1, []int64{1, 1, 1}, 0, []int64{1, 0, 0}, 0},
		"1 over three of different weight":              {1, []int64{1, 2, 1}, 0, []int64{0, 1, 0}, 0},
		"1, most of it the merchant's":                  {1, []int64{10, 20}, 70, []int64{0, 0}, 1},
		"nothing":                                       {0, []int64{1, 2}, 3, []int64{0, 0}, 0},
		"two units, three fractions, the rest last":     {2, []int64{1, 1}, 1, []int64{1, 1}, 0},
		"the largest amount at the largest weights":     {math.MaxInt64, []int64{1 << 60, 1 << 60}, 1 << 60, []int64{3074457345618258603, 3074457345618258602}, 3074457345618258602},
		"nobody has a weight":                           {5, []int64{0, 0}, 0, []int64{0, 0}, 5},
		"a unit never goes to who has no weight":        {5, []int64{0, 1, 1}, 0, []int64{0, 3, 2}, 0},
		"a large amount and one weight that is nothing": {1<<53 - 1, []int64{1_000_000, 1}, 0, []int64{9007190247550743, 9007190248}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			amounts, left := share.Split(c.amount, parts(c.weights...), c.rest)
			require.Equal(t, c.want, amounts)
			require.Equal(t, c.left, left)
		})
	}
}

func TestASplitDoesNotDependOnTheOrderOfItsParts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		list := make([]share.Part, 1+random.IntN(share.MaxReceivers))
		for i := range list {
			// Few different weights make many ties.
			list[i] = share.Part{Key: fmt.Sprint("receiver-", i), Weight: 1 + random.Int64N(4)}
		}
		amount, rest := random.Int64N(10_000), random.Int64N(5)
		amounts, left := share.Split(amount, list, rest)
		got := map[string]int64{}
		sum := left
		total := rest
		for i, p := range list {
			got[p.Key] = amounts[i]
			sum += amounts[i]
			total += p.Weight
		}
		require.Equal(t, amount, sum, "the sum is exact")
		for i, p := range list {
			// Nobody is off its quota by a unit or more.
			require.Less(t, amounts[i]*total, amount*p.Weight+total)
			require.Greater(t, amounts[i]*total, amount*p.Weight-total)
		}
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		again, leftAgain := share.Split(amount, list, rest)
		require.Equal(t, left, leftAgain)
		for i, p := range list {
			require.Equal(t, got[p.Key], again[i], "%s in another order", p.Key)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(int64(645), int64(30), int64(70), int64(0), int64(0))
	f.Add(int64(math.MaxInt64), int64(1)<<60, int64(1), int64(0), int64(1)<<60)
	f.Fuzz(func(t *testing.T, amount, a, b, c, rest int64) {
		const bound = int64(1)<<60 - 1
		a, b, c, rest = a&bound, b&bound, c&bound, rest&bound
		if amount < 0 || a+b+c+rest == 0 {
			t.Skip()
		}
		amounts, left := share.Split(amount, parts(a, b, c), rest)
		sum := left
		for i, w := range []int64{a, b, c} {
			require.GreaterOrEqual(t, amounts[i], int64(0))
			if w == 0 {
				require.Zero(t, amounts[i])
			}
			sum += amounts[i]
		}
		require.GreaterOrEqual(t, left, int64(0))
		require.Equal(t, amount, sum)
	})
}

// ofOneSale makes parties of one sharing of a base that nothing was refunded of before.
func ofOneSale(base int64, amounts ...int64) (got []share.Got) {
	for i, amount := range amounts {
		got = append(got, share.Got{Key: string(rune('a' + i)), Amount: amount, Base: base})
	}
	return got
}

func TestPartialRefundsClawBackExactlyWhatWasGot(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		sale := 1 + random.Int64N(300)
		var got []share.Got
		var before []int64
		undone, had := int64(0), int64(0)
		for undone < sale {
			// Something of what is left is shared, and then something of what is left is refunded.
			for left := sale - undone - had; left > 0 && random.IntN(3) > 0 && len(got) < 12; left = sale - undone - had {
				g := share.Got{Key: fmt.Sprintf("r%02d", len(got)), Amount: 1 + random.Int64N(left), Base: sale - undone, Since: undone}
				got, before = append(got, g), append(before, 0)
				had += g.Amount
			}
			refund := 1 + random.Int64N(sale-undone)
			undone += refund
			due := share.ClawBack(sale, undone, got, before)
			total := int64(0)
			for i := range due {
				require.GreaterOrEqual(t, due[i], int64(0), "nobody is paid back")
				before[i] += due[i]
				total += due[i]
				require.LessOrEqual(t, before[i], got[i].Amount, "nobody gives more than it got")
				// Nobody is off its part by a unit or more, but for what it gave too early.
				require.Greater(t, (before[i]+1)*got[i].Base, got[i].Amount*(undone-got[i].Since)-got[i].Base)
			}
			had -= total
			require.LessOrEqual(t, undone+had, sale, "refunds and what receivers keep stay within the sale")
			require.Equal(t, make([]int64, len(got)), share.ClawBack(sale, undone, got, before), "the same refund once more takes nothing")
		}
		for i := range got {
			require.Equal(t, got[i].Amount, before[i], "all is undone: exactly what it got")
		}
	}
}

func TestManySmallRefundsTakeBackWhatOneOfTheirSumDoes(t *testing.T) {
	t.Parallel()
	got := ofOneSale(10_000, 3000, 1)
	before := []int64{0, 0}
	for undone := int64(1); undone <= 100; undone++ {
		for i, due := range share.ClawBack(10_000, undone, got, before) {
			before[i] += due
		}
	}
	require.Equal(t, []int64{30, 0}, before)
}

func TestClawBackIsProportionalToTheCent(t *testing.T) {
	t.Parallel()
	// 645 was shared 194 and 451. Three refunds of a third each.
	got := ofOneSale(645, 194, 451)
	before := []int64{0, 0}
	var taken [][]int64
	for _, undone := range []int64{215, 430, 645} {
		due := share.ClawBack(645, undone, got, before)
		taken = append(taken, slices.Clone(due))
		before[0] += due[0]
		before[1] += due[1]
	}
	require.Equal(t, [][]int64{{65, 150}, {64, 151}, {65, 150}}, taken)
	require.Equal(t, []int64{194, 451}, before)

	require.Equal(t, []int64{0}, share.ClawBack(100, 1, ofOneSale(100, 30), []int64{0}), "the merchant kept the most of it, and bears the first cent")
	require.Equal(t, []int64{3}, share.ClawBack(100, 10, ofOneSale(100, 30), []int64{0}))
	require.Equal(t, []int64{0}, share.ClawBack(100, 10, ofOneSale(100, 30), []int64{5}), "a refund that failed had taken more: nothing is paid back, and nothing taken")
	require.Equal(t, []int64{0, 0}, share.ClawBack(645, 0, got, []int64{0, 0}))
	// Shared after half was refunded: only what is undone since counts.
	late := []share.Got{{Key: "a", Amount: 15, Base: 50, Since: 50}}
	require.Equal(t, []int64{0}, share.ClawBack(100, 50, late, []int64{0}))
	require.Equal(t, []int64{8}, share.ClawBack(100, 75, late, []int64{0}), "7.5: a tie goes to the receiver")
	require.Equal(t, []int64{0}, share.ClawBack(100, 20, late, []int64{0}), "a refund before it failed meanwhile")
	// Two sharings of one sale never give back more between them than is refunded.
	require.Equal(t, []int64{1, 0}, share.ClawBack(2, 1, ofOneSale(2, 1, 1), []int64{0, 0}))
	huge := int64(1)<<53 - 1
	require.Equal(t, []int64{huge}, share.ClawBack(huge, huge, ofOneSale(huge, huge), []int64{0}))
}
