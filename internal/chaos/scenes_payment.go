package chaos

import (
	"context"
	"net/http"
	"time"
)

func paymentScenes() []scene {
	return []scene{
		{"once", 20, once},
		{"thrice", 10, thrice},
		{"at-once", 10, atOnceScene},
		{"disorder", 8, disorder},
		{"early", 6, early},
		{"wrong-amount", 4, wrongAmount},
		{"wrong-currency", 3, wrongCurrency},
		{"unknown-order", 3, unknownOrder},
		{"second", 4, second},
		{"late", 4, late},
		{"close-race", 4, closeRace},
		{"forged", 4, forged},
		{"conflict", 3, conflict},
		{"conflict-race", 3, conflictRace},
		{"expiry", 4, expiry},
		{"goods", 5, goods},
		{"again", 4, again},
		{"unpaid", 1, unpaid},
	}
}

// once: the channel sends until it is acknowledged, and never again. What is lost here nobody makes up for.
func once(ctx context.Context, p *player) {
	o := p.order()
	p.create(ctx, o)
	p.tell(ctx, p.paid(1, o))
}

// thrice: the channel sends the same success three times, one after another.
func thrice(ctx context.Context, p *player) {
	o := p.order()
	p.create(ctx, o)
	p.times(ctx, 3, p.paid(1, o))
}

// at-once: the same success three to six times at once, over both APIs.
func atOnceScene(ctx context.Context, p *player) {
	o := p.order()
	n := 3 + p.rng.IntN(4)
	p.create(ctx, o)
	p.crowd(ctx, n, p.paid(1, o))
}

// disorder: failed, closed and success of one transaction, in any order or at once.
func disorder(ctx context.Context, p *player) {
	o := p.order()
	success := p.paid(1, o)
	reps := []*Report{success, p.report(PayFailed, success.Transaction, o)}
	if p.coin(2) {
		reps = append(reps, p.report(PayClosed, success.Transaction, o))
	}
	p.rng.Shuffle(len(reps), func(i, j int) { reps[i], reps[j] = reps[j], reps[i] })
	crowded, n := p.coin(2), 1+p.rng.IntN(2)
	p.create(ctx, o)
	if crowded {
		p.crowd(ctx, n, reps...)
		return
	}
	for _, rep := range reps {
		p.times(ctx, n, rep)
	}
}

// early: the channel is faster than the merchant; or both come at once.
func early(ctx context.Context, p *player) {
	o := p.order()
	rep := p.paid(1, o)
	repeated := p.coin(2)
	if p.coin(2) {
		together(func() { p.tell(ctx, rep) }, func() { p.create(ctx, o) })
	} else {
		p.tell(ctx, rep)
		p.create(ctx, o)
	}
	if repeated {
		p.tell(ctx, rep)
	}
}

// wrong-amount: a success with another amount; half of the time the right one follows.
func wrongAmount(ctx context.Context, p *player) {
	o := p.order()
	off := 1 + p.rng.Int64N(o.Amount)
	wrong := p.paid(1, o, func(r *Report) { r.Amount += off })
	corrected, n := p.coin(2), 1+p.rng.IntN(2)
	p.create(ctx, o)
	p.times(ctx, n, wrong)
	if corrected {
		p.times(ctx, n, p.paid(1, o))
	}
}

// wrong-currency: a success in another currency.
func wrongCurrency(ctx context.Context, p *player) {
	o := p.order()
	n := 1 + p.rng.IntN(2)
	p.create(ctx, o)
	p.times(ctx, n, p.paid(1, o, func(r *Report) { r.Currency = "EUR" }))
}

// unknown-order: a success of an order that nobody ever makes.
func unknownOrder(ctx context.Context, p *player) {
	o := p.order()
	p.times(ctx, 1+p.rng.IntN(2), p.paid(1, o))
}

// second: two transactions pay one order.
func second(ctx context.Context, p *player) {
	o := p.order()
	crowded, n := p.coin(2), 1+p.rng.IntN(2)
	p.create(ctx, o)
	one, two := p.paid(1, o), p.paid(2, o)
	if crowded {
		p.crowd(ctx, n, one, two)
		return
	}
	p.times(ctx, n, one)
	p.times(ctx, n, two)
}

// late: the merchant closes, and then the money comes.
func late(ctx context.Context, p *player) {
	o := p.order()
	n := 1 + p.rng.IntN(3)
	p.create(ctx, o)
	p.closeOrder(ctx, o)
	p.record.keep(func() { o.ClosedFirst = o.Close == CloseDone })
	p.times(ctx, n, p.paid(1, o))
}

// close-race: the merchant closes while the money comes.
func closeRace(ctx context.Context, p *player) {
	o := p.order()
	p.create(ctx, o)
	rep := p.paid(1, o)
	together(func() { p.closeOrder(ctx, o) }, func() { p.crowd(ctx, 2, rep) })
}

// forged: somebody else claims to be the channel, or repeats an old message. It is refused, and nothing is kept.
func forged(ctx context.Context, p *player) {
	o := p.order()
	rep := p.paid(1, o, func(r *Report) { r.Forged = true })
	stale := p.coin(2)
	p.create(ctx, o)
	for range 2 {
		insist(ctx, func() bool {
			secret, at := forgersSecret, time.Now()
			if stale {
				secret, at = p.merchant.Secret, at.Add(-10*time.Minute)
			}
			a := p.send(ctx, rep, secret, at)
			if a.status >= 300 && a.status < 500 && a.status != http.StatusBadRequest && a.status != http.StatusUnauthorized {
				p.record.strange("a forged report of %s: %d %s", rep.Order, a.status, a.body)
			}
			return a.status >= 200 && a.status < 500
		})
	}
}

// forgersSecret is a well-formed secret that no account has.
var forgersSecret = newSecret()

// conflict: an acknowledged success is contradicted.
func conflict(ctx context.Context, p *player) {
	o := p.order()
	right := p.paid(1, o)
	off := 1 + p.rng.Int64N(o.Amount)
	p.create(ctx, o)
	p.tell(ctx, right)
	wrong := p.paid(1, o, func(r *Report) { r.Amount += off; r.Contradicts = right.Acked > 0 })
	p.times(ctx, 2, wrong)
	p.tell(ctx, right)
}

// conflict-race: the right success and a wrong one of the same transaction come at once.
func conflictRace(ctx context.Context, p *player) {
	o := p.order()
	off := 1 + p.rng.Int64N(o.Amount)
	p.create(ctx, o)
	p.crowd(ctx, 2, p.paid(1, o), p.paid(1, o, func(r *Report) { r.Amount += off }))
}

// expiry: the money comes around the moment at which the order expires.
func expiry(ctx context.Context, p *player) {
	o := p.order()
	o.Expires = 1 + p.rng.IntN(3)
	later := time.Duration(p.rng.Int64N(int64(5 * time.Second)))
	p.create(ctx, o)
	p.wait(ctx, later)
	p.tell(ctx, p.paid(1, o))
}

// goods: an order that reserves goods and asks for a code is paid, shipped and completed, and then reported again.
func goods(ctx context.Context, p *player) {
	o := p.order()
	o.Goods, o.Code = 1+p.rng.Int64N(3), true
	p.create(ctx, o)
	rep := p.paid(1, o)
	p.crowd(ctx, 3, rep)
	p.move(ctx, o, "ship")
	p.move(ctx, o, "complete")
	p.tell(ctx, rep)
}

// again: a success that was booked comes once more, much later, in a crowd.
func again(ctx context.Context, p *player) {
	o := p.order()
	later := time.Duration(5+p.rng.IntN(15)) * time.Second
	p.create(ctx, o)
	rep := p.paid(1, o)
	p.tell(ctx, rep)
	p.wait(ctx, later)
	p.crowd(ctx, 5, rep)
}

// unpaid: nobody pays, with and without goods.
func unpaid(ctx context.Context, p *player) {
	o := p.order()
	if p.coin(2) {
		o.Goods = 1
	}
	p.create(ctx, o)
}
