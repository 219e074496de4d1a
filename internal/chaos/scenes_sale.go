package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Scenes with an acquirer: the order is announced at the channel, and the channel is asked.
func saleScenes() []scene {
	return []scene{
		{"sale", 8, sale},
		{"sale-close", 3, saleClose},
		{"sale-unpaid", 2, saleUnpaid},
	}
}

// sale: the payer pays at the channel, which tells of it, loses its notice, or both.
func sale(ctx context.Context, p *player) {
	s := p.newSale()
	later := time.Duration(p.rng.Int64N(int64(2 * time.Second)))
	if p.announce(ctx, s) {
		p.wait(ctx, later)
		p.payAt(s)
	}
}

// sale-close: the merchant closes while the payer pays.
func saleClose(ctx context.Context, p *player) {
	s := p.newSale()
	later := time.Duration(p.rng.Int64N(int64(100 * time.Millisecond)))
	if p.announce(ctx, s) {
		together(func() { p.closeSale(ctx, s) }, func() { p.wait(ctx, later); p.payAt(s) })
	}
}

// sale-unpaid: nobody pays, and the order expires at the channel and here.
func saleUnpaid(ctx context.Context, p *player) {
	p.announce(ctx, p.newSale())
}

// saleExpiry is soon: a notice that was lost is made up for by the question that comes before the closing.
const saleExpiry = 20

func (p *player) newSale() *Sale {
	s := &Sale{
		Tenant: p.merchant.Tenant, Number: p.name, Scene: p.scene, Channel: p.merchant.Channel, Account: p.merchant.Acquirer,
		Amount: 100 + p.rng.Int64N(100_000), Currency: currency,
	}
	p.record.keep(func() { p.record.Sales = append(p.record.Sales, s) })
	return s
}

// announce insists that the order is made and that the channel has it; false when that did not come about.
func (p *player) announce(ctx context.Context, s *Sale) (ready bool) {
	request := map[string]any{
		"out_trade_no": s.Number, "amount": s.Amount, "currency": s.Currency, "description": s.Scene, "channel": s.Channel,
		"account": s.Account, "expires_in_seconds": saleExpiry,
	}
	if s.Shared {
		request["profit_sharing"] = s.plan()
	}
	p.record.keep(func() { s.Asked = true })
	begin := time.Now()
	insist(ctx, func() bool {
		a := p.call(ctx, http.MethodPost, "/v1/payments", nil, request)
		if a.passing() {
			return false
		}
		if a.code() == "channel_refused" && time.Since(begin) > (saleExpiry-1)*time.Second {
			return true // servers were away until it was too late: it expired before the channel had it
		}
		var answer struct {
			State   string `json:"state"`
			Prepay  string `json:"prepay_state"`
			Channel any    `json:"channel_data"`
		}
		if err := json.Unmarshal(a.body, &answer); err != nil || a.status != http.StatusOK && a.status != http.StatusCreated {
			p.record.strange("announce %s: %d %s", s.Number, a.status, a.body)
			return true
		}
		p.record.keep(func() { s.Created = true })
		ready = answer.Prepay == "READY"
		if ready && answer.Channel == nil {
			p.record.strange("order %s is announced and has no channel_data: %s", s.Number, a.body)
		}
		return ready || answer.State != "PENDING"
	})
	return ready
}

// payAt lets the payer pay at the channel; the channel may not take it any more.
func (p *player) payAt(s *Sale) {
	err := p.merchant.sim.Pay(s.Number)
	p.record.keep(func() { s.Paid = err == nil })
}

// closeSale insists on an answer to the closing. A closing that is only asked for may still turn out to come too late.
func (p *player) closeSale(ctx context.Context, s *Sale) {
	p.insistOn(ctx, http.MethodPost, "/v1/payments/"+s.Number+"/close", nil, map[string]any{}, func(a answer) bool {
		switch {
		case a.status == http.StatusOK:
			p.record.keep(func() { s.Close = CloseDone })
		case a.status == http.StatusConflict && a.code() == "already_paid":
			p.record.keep(func() { s.Close = ClosePaid })
		case a.status == http.StatusAccepted:
			p.record.keep(func() { s.Close = CloseUnknown })
		default:
			return false
		}
		return true
	})
}
