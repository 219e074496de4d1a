package chaos

import (
	"context"
	"net/http"
)

func shareScenes() []scene {
	return []scene{
		{"share", 3, shareScene},
	}
}

// shareRatios are the parts of two receivers, and the merchant keeps the rest of a hundred.
var shareRatios = [2]int64{30, 45}

// receivers are two accounts in the way of each channel.
var receivers = map[string][2]string{
	"wechatpay": {"1900000109", "1900000110"},
	"alipay":    {"2088102175792001", "2088102175792002"},
	"stripe":    {"acct_1AAAAAAAAAAAAAAA", "acct_1BBBBBBBBBBBBBBB"},
}

// share: a sale that froze how it will be divided is divided so, asked for once, or twice at once and then again.
func shareScene(ctx context.Context, p *player) {
	s := p.newSale()
	s.Shared = true
	again := p.coin(2)
	sh := &Share{Tenant: s.Tenant, Number: s.Number + "-s", Order: s.Number}
	if !p.announce(ctx, s) {
		return
	}
	p.payAt(s)
	if !s.Paid || !p.awaitPaid(ctx, s) {
		return
	}
	p.record.keep(func() { p.record.Shares = append(p.record.Shares, sh) })
	if !again {
		p.share(ctx, sh)
		return
	}
	together(func() { p.share(ctx, sh) }, func() { p.share(ctx, sh) })
	p.share(ctx, sh)
}

// plan is how a sale says that it will be divided.
func (s *Sale) plan() map[string]any {
	var list []map[string]any
	for i, account := range receivers[s.Channel] {
		list = append(list, map[string]any{"account": account, "ratio": shareRatios[i]})
	}
	return map[string]any{"receivers": list, "merchant_ratio": 100 - shareRatios[0] - shareRatios[1]}
}

// share insists on an answer: that it is on its way.
func (p *player) share(ctx context.Context, sh *Share) {
	p.insistOn(ctx, http.MethodPost, "/v1/payments/"+sh.Order+"/shares", nil,
		map[string]any{"out_order_no": sh.Number, "finish": true}, func(a answer) bool {
			if a.status != http.StatusCreated && a.status != http.StatusOK {
				return false
			}
			p.record.keep(func() { sh.Answer = Accepted })
			return true
		})
}

// parts divides an amount by largest remainder: each receiver's part rounded down, and the units that remain one each to the
// largest remainders, the merchant's among them; between equals the smaller account is first and the merchant last.
func (s *Sale) parts() map[string]int64 {
	ratios := []int64{shareRatios[0], shareRatios[1], 100 - shareRatios[0] - shareRatios[1]}
	var parts, remainders [3]int64
	left := s.Amount
	for i, ratio := range ratios {
		parts[i], remainders[i] = s.Amount*ratio/100, s.Amount*ratio%100
		left -= parts[i]
	}
	for ; left > 0; left-- {
		most := 0
		for i := range remainders {
			if remainders[i] > remainders[most] {
				most = i
			}
		}
		parts[most]++
		remainders[most] = -1
	}
	return map[string]int64{receivers[s.Channel][0]: parts[0], receivers[s.Channel][1]: parts[1]}
}
