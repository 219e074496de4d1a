package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

func refundScenes() []scene {
	return []scene{
		{"refund", 4, refundScene},
	}
}

// refund: a sale is paid back in parts that are asked for at once, each once or twice, together sometimes more than was paid.
func refundScene(ctx context.Context, p *player) {
	s := p.newSale()
	var refunds []*Refund
	var again []bool
	for i := range 1 + p.rng.IntN(3) {
		refunds = append(refunds, &Refund{
			Tenant: s.Tenant, Number: fmt.Sprintf("%s-%d", s.Number, i+1), Order: s.Number, Amount: 1 + p.rng.Int64N(s.Amount*6/10),
		})
		again = append(again, p.coin(2))
	}
	if !p.announce(ctx, s) {
		return
	}
	p.payAt(s)
	if !s.Paid || !p.awaitPaid(ctx, s) {
		return
	}
	var asks []func()
	for i, r := range refunds {
		p.record.keep(func() { p.record.Refunds = append(p.record.Refunds, r) })
		asks = append(asks, func() { p.refund(ctx, r) })
		if again[i] {
			asks = append(asks, func() { p.refund(ctx, r) })
		}
	}
	together(asks...)
}

// paidWithin is as long as a sale needs whose notice was lost.
const paidWithin = (saleExpiry + 20) * time.Second

// awaitPaid looks until an order is paid.
func (p *player) awaitPaid(ctx context.Context, s *Sale) (paid bool) {
	ctx, cancel := context.WithTimeout(ctx, paidWithin)
	defer cancel()
	insist(ctx, func() bool {
		var o struct {
			State string `json:"state"`
		}
		a := p.call(ctx, http.MethodGet, "/v1/payments/"+s.Number, nil, nil)
		if a.status == http.StatusOK && json.Unmarshal(a.body, &o) == nil {
			paid = isPaid(o.State)
		}
		return paid || o.State == "CLOSED"
	})
	return paid
}

// refund insists on an answer: that it is on its way, or a refusal.
func (p *player) refund(ctx context.Context, r *Refund) {
	p.insistOn(ctx, http.MethodPost, "/v1/payments/"+r.Order+"/refunds", nil,
		map[string]any{"out_refund_no": r.Number, "amount": r.Amount, "reason": "chaos"}, func(a answer) bool {
			told := Accepted
			switch a.status {
			case http.StatusCreated, http.StatusOK:
			case http.StatusConflict:
				told = a.code()
			default:
				return false
			}
			p.record.keep(func() {
				// Asked twice at once, one may be refused for the other's sake; once it was taken it stays so.
				if r.Answer != Accepted {
					r.Answer = told
				}
			})
			return true
		})
}
