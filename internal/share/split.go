package share

import (
	"cmp"
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

// ClawBack says what each party gives back when more of a sale is undone. got is what each had; before is what each has given
// back; undone is how much of the base is undone by now, all in all, and rest is the part of the base that nobody here got.
//
// It divides the cumulative amount, not the latest one, so that several partial refunds take back in total what one refund
// of their sum does: nobody gives back a unit too many or too few, and once the whole base is undone everybody has given
// back exactly what it got. A division of a greater amount can give somebody a unit less; nobody is paid back for that,
// the others give the less, and never more in total than is undone.
func ClawBack(undone int64, got []Part, rest int64, before []int64) (due []int64) {
	due = make([]int64, len(got))
	if undone <= 0 {
		return due
	}
	targets, _ := Split(undone, got, rest)
	room := undone
	for i := range got {
		due[i] = max(0, targets[i]-before[i])
		room -= before[i] + due[i]
	}
	// Last key first: the reverse of who wins a unit.
	order := make([]int, len(got))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(got[b].Key, got[a].Key) })
	for _, i := range order {
		if room >= 0 {
			break
		}
		less := min(due[i], -room)
		due[i] -= less
		room += less
	}
	return due
}
