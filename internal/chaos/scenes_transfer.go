package chaos

import (
	"context"
	"net/http"
)

func transferScenes() []scene {
	return []scene{
		{"direct", 6, func(ctx context.Context, p *player) { askAgain(ctx, p, p.transfer("direct")) }},
		{"tcc", 6, func(ctx context.Context, p *player) { askAgain(ctx, p, p.transfer("tcc")) }},
		{"external", 4, external},
		{"too-much", 3, askForTooMuch},
		{"posting", 3, posting},
	}
}

// askAgain asks for a transfer; half of the time twice at once, and then again: one key, one transfer. Another content
// under its key is refused.
func askAgain(ctx context.Context, p *player, t *Transfer) {
	again, other := p.coin(2), p.coin(3)
	if !again {
		p.ask(ctx, t)
		return
	}
	together(func() { p.ask(ctx, t) }, func() { p.ask(ctx, t) })
	p.ask(ctx, t)
	if !other || t.Answer == "" {
		return
	}
	changed := *t
	changed.Amount++
	p.insistOn(ctx, http.MethodPost, "/v1/transfers", named(t.Key), changed.body(), func(a answer) bool {
		return a.status == http.StatusUnprocessableEntity
	})
}

// external: somebody outside takes part, who stumbles and may refuse.
func external(ctx context.Context, p *player) {
	refuses := p.coin(4)
	askAgain(ctx, p, p.transfer("tcc", func(t *Transfer) { t.External, t.Refuses = true, refuses }))
}

// too-much: the payer has less. It is refused, and refused again.
func askForTooMuch(ctx context.Context, p *player) {
	mode := []string{"direct", "tcc"}[p.rng.IntN(2)]
	askAgain(ctx, p, p.transfer(mode, func(t *Transfer) { t.Amount, t.TooMuch = tooMuch, true }))
}

// posting: a journal of the merchant's own, sent once, or twice at once.
func posting(ctx context.Context, p *player) {
	j := &Posting{
		Tenant: p.merchant.Tenant, Key: p.name, From: bank, To: wallet(p.rng.IntN(wallets)), Amount: 1 + p.rng.Int64N(1000), Currency: currency,
	}
	p.record.keep(func() { p.record.Postings = append(p.record.Postings, j) })
	if p.coin(2) {
		p.post(ctx, j)
		return
	}
	together(func() { p.post(ctx, j) }, func() { p.post(ctx, j) })
}
