package share

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
)

// Part is one party to a division. Weights are whole numbers: 30 and 70 say the same as 3000 and 7000.
type Part struct {
	// Key names the party, and decides between equal remainders.
	Key    string
	Weight int64 // 0 or more
}

// Split divides an amount among parts, in proportion to their weights, and what is left is the rest's, whose weight is rest.
// The amounts come in the order of the parts; amounts and left sum to amount exactly.
//
// Largest remainder: everybody gets the whole units of its quota, and the units that remain go one each to the largest
// fractions. Between equal fractions the smaller key wins, byte by byte, and the rest comes last. So the order of the parts
// changes nothing. Where nobody has a weight all is left. Weights sum to less than 2^63; amount is 0 or more.
func Split(amount int64, parts []Part, rest int64) (amounts []int64, left int64) {
	total := uint64(rest)
	for _, p := range parts {
		total += uint64(p.Weight)
	}
	if total == 0 {
		return make([]int64, len(parts)), amount
	}
	type fraction struct {
		part int // len(parts) is the rest
		of   uint64
	}
	amounts = make([]int64, len(parts)+1)
	fractions := make([]fraction, len(parts)+1)
	open := amount
	for i := range amounts {
		weight := rest
		if i < len(parts) {
			weight = parts[i].Weight
		}
		// The product has up to 126 bits; its quotient is at most the amount.
		high, low := bits.Mul64(uint64(amount), uint64(weight))
		whole, remainder := bits.Div64(high, low, total)
		amounts[i] = int64(whole)
		fractions[i] = fraction{i, remainder}
		open -= amounts[i]
	}
	slices.SortFunc(fractions, func(a, b fraction) int {
		if order := cmp.Compare(b.of, a.of); order != 0 {
			return order
		}
		switch {
		case a.part == len(parts):
			return 1
		case b.part == len(parts):
			return -1
		}
		return cmp.Compare(parts[a.part].Key, parts[b.part].Key)
	})
	// Fewer units are open than there are fractions above 0, so nobody without a fraction gets one.
	for i := range open {
		amounts[fractions[i].part]++
	}
	return amounts[:len(parts)], amounts[len(parts)]
}

// Got is what a party got of a sale.
type Got struct {
	Key    string
	Amount int64 // of Base
	Base   int64 // what the sale was worth when it was divided: at least Amount
	Since  int64 // what of the sale was undone by then
}

// ClawBack says what each party gives back when more of a sale is undone. undone is how much of the sale is undone by now, all in
// all; before is what each has given back. Each owes Amount x (undone - Since) / Base, and whoever is not among the parties owes
// the rest. Whole units are divided by largest remainder; equal remainders go to the smaller key, and the rest comes last.
//
// It divides the cumulative amount, not the latest one, so that several partial refunds take back in total what one refund
// of their sum does, to the unit, and once all is undone everybody has given back exactly what it got. A division of a greater
// amount can give somebody a unit less: nobody is paid back for that, the others give the less. What the parties keep and what
// is undone never pass the sale, however earlier sharings and refunds were rounded.
func ClawBack(sale, undone int64, got []Got, before []int64) (due []int64) {
	due = make([]int64, len(got))
	targets, winners := owed(undone, got)
	var want, gives, all int64
	for i := range got {
		due[i] = max(0, targets[i]-before[i])
		gives += before[i] + due[i]
		want += targets[i]
		all += got[i].Amount
	}
	want = max(min(want, undone), undone-(sale-all))
	for _, i := range slices.Backward(winners) {
		less := min(due[i], max(0, gives-want))
		due[i] -= less
		gives -= less
	}
	for _, i := range winners {
		more := min(got[i].Amount-before[i]-due[i], max(0, want-gives))
		due[i] += more
		gives += more
	}
	return due
}

// owed divides what is undone: what each party owes in whole units, and the parties in the order in which they win one more.
func owed(undone int64, got []Got) (units []int64, winners []int) {
	const rest = -1
	units = make([]int64, len(got))
	fractions := map[int]*big.Rat{}
	order := []int{rest}
	left := new(big.Rat).SetInt64(undone)
	open := undone
	for i, g := range got {
		quota := g.quota(undone)
		left.Sub(left, quota)
		units[i], fractions[i] = wholeOf(quota)
		open -= units[i]
		order = append(order, i)
	}
	if left.Sign() < 0 {
		left.SetInt64(0) // earlier roundings can leave the rest owing less than nothing
	}
	whole, fraction := wholeOf(left)
	fractions[rest] = fraction
	open -= whole
	slices.SortFunc(order, func(a, b int) int {
		if order := fractions[b].Cmp(fractions[a]); order != 0 {
			return order
		}
		switch {
		case a == rest:
			return 1
		case b == rest:
			return -1
		}
		return cmp.Compare(got[a].Key, got[b].Key)
	})
	for i := range open {
		if order[i] != rest {
			units[order[i]]++
		}
	}
	return units, slices.DeleteFunc(order, func(i int) bool { return i == rest })
}

func (g Got) quota(undone int64) *big.Rat {
	since := undone - g.Since
	if since <= 0 || g.Base == 0 {
		return new(big.Rat)
	}
	return new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(g.Amount), big.NewInt(since)), big.NewInt(g.Base))
}

// wholeOf gives the whole units of a quota, which is 0 or more, and its fraction.
func wholeOf(quota *big.Rat) (units int64, fraction *big.Rat) {
	whole := new(big.Int).Quo(quota.Num(), quota.Denom())
	return whole.Int64(), new(big.Rat).Sub(quota, new(big.Rat).SetInt(whole))
}
