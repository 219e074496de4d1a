package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// sku is what every merchant has on its shelf.
const sku = "book"

// order draws an order; nobody has asked for it yet.
func (p *player) order() *Order {
	currencies := []string{"CNY", "CNY", "CNY", "USD", "JPY"}
	return p.record.addOrder(&Order{
		Tenant: p.merchant.Tenant, Number: p.name, Scene: p.scene,
		Amount: 1 + p.rng.Int64N(100_000), Currency: currencies[p.rng.IntN(len(currencies))],
	})
}

// create insists that the order is made. Its number is its idempotency key.
func (p *player) create(ctx context.Context, o *Order) {
	request := map[string]any{
		"out_trade_no": o.Number, "amount": o.Amount, "currency": o.Currency, "description": o.Scene, "redemption_code": o.Code,
	}
	if o.Goods > 0 {
		request["items"] = []map[string]any{{"sku": sku, "quantity": o.Goods}}
	}
	if o.Expires > 0 {
		request["expires_in_seconds"] = o.Expires
	}
	p.record.keep(func() { o.Asked = true })
	p.insistOn(ctx, http.MethodPost, "/v1/payments", nil, request, func(a answer) bool {
		if a.status != http.StatusCreated && a.status != http.StatusOK {
			return false
		}
		p.record.keep(func() { o.Created = true })
		return true
	})
}

// closeOrder insists on an answer to the closing of an order.
func (p *player) closeOrder(ctx context.Context, o *Order) {
	p.record.keep(func() { o.Close = CloseUnknown })
	p.insistOn(ctx, http.MethodPost, "/v1/payments/"+o.Number+"/close", nil, map[string]any{}, func(a answer) bool {
		switch {
		case a.status == http.StatusOK:
			p.record.keep(func() { o.Close = CloseDone })
		case a.status == http.StatusConflict && a.code() == "already_paid":
			p.record.keep(func() { o.Close = ClosePaid })
		default:
			return false
		}
		return true
	})
}

// move insists on a merchant's move of a paid order, for a short while: it may not be booked yet.
func (p *player) move(ctx context.Context, o *Order, to string) {
	ctx, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	insist(ctx, func() bool {
		a := p.call(ctx, http.MethodPost, "/v1/payments/"+o.Number+"/"+to, nil, map[string]any{})
		if !a.passing() && a.status != http.StatusOK && a.code() != "illegal_move" {
			p.record.strange("%s of order %s: %d %s", to, o.Number, a.status, a.body)
			return true
		}
		return a.status == http.StatusOK
	})
}

const moveWithin = 10 * time.Second

// call makes one call as the merchant.
func (p *player) call(ctx context.Context, method, path string, header http.Header, body any) answer {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			panic(err) // only plain values come here
		}
	}
	if header = header.Clone(); header == nil {
		header = http.Header{}
	}
	header.Set("Authorization", "Bearer "+p.merchant.APIKey)
	header.Set("Content-Type", "application/json")
	p.record.called()
	return p.caller.send(ctx, method, path, header, text)
}

// insistOn calls until an answer settles the matter. An answer that does not, and is not one of those that pass, is strange.
func (p *player) insistOn(ctx context.Context, method, path string, header http.Header, body any, settles func(answer) bool) bool {
	return insist(ctx, func() bool {
		a := p.call(ctx, method, path, header, body)
		if a.passing() {
			return false
		}
		if !settles(a) {
			p.record.strange("%s %s: %d %s", method, path, a.status, a.body)
		}
		return true
	})
}

// message is what the channel standard sends, in its own words.
type message struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      messageData `json:"data"`
}

type messageData struct {
	TransactionID string `json:"transaction_id"`
	OutTradeNo    string `json:"out_trade_no"`
	Amount        int64  `json:"amount"`
	Currency      string `json:"currency"`
}

var messageTypes = map[string]string{
	PaySuccess: "payment.succeeded", PayFailed: "payment.failed", PayClosed: "payment.closed",
}

// report writes what the channel says of an order; change may make it wrong.
func (p *player) report(kind, transaction string, o *Order, change ...func(*Report)) *Report {
	rep := &Report{
		Tenant: p.merchant.Tenant, Account: p.merchant.Account, Kind: kind, Transaction: transaction,
		Order: o.Number, Amount: o.Amount, Currency: o.Currency,
	}
	for _, do := range change {
		do(rep)
	}
	body, err := json.Marshal(message{messageTypes[kind], time.Now().UTC(), messageData{transaction, rep.Order, rep.Amount, rep.Currency}})
	if err != nil {
		panic(err) // only plain values come here
	}
	rep.Body = body
	return p.record.addReport(rep)
}

// paid is the report that an order was paid by its n-th transaction.
func (p *player) paid(n int, o *Order, change ...func(*Report)) *Report {
	return p.report(PaySuccess, fmt.Sprintf("tx-%s-%d", o.Number, n), o, change...)
}

// tell sends a report as the channel does: again until it is acknowledged.
func (p *player) tell(ctx context.Context, rep *Report) {
	refusals := 0
	insist(ctx, func() bool {
		a := p.send(ctx, rep, p.merchant.Secret, time.Now())
		if a.status >= 300 && a.status < 500 {
			if refusals++; refusals == 1 {
				p.record.strange("an authentic report of %s was refused: %d %s", rep.Order, a.status, a.body)
			}
			return refusals == 3
		}
		return a.status >= 200 && a.status < 300
	})
}

// times sends a report several times, whatever is answered in between, and each time until it is acknowledged.
func (p *player) times(ctx context.Context, n int, rep *Report) {
	for range n {
		p.tell(ctx, rep)
	}
}

// crowd sends reports at once, each several times.
func (p *player) crowd(ctx context.Context, n int, reps ...*Report) {
	var sends []func()
	for _, rep := range reps {
		for range n {
			sends = append(sends, func() { p.tell(ctx, rep) })
		}
	}
	together(sends...)
}

// send makes one attempt.
func (p *player) send(ctx context.Context, rep *Report, secret string, at time.Time) answer {
	header, err := p.sign(secret, rep.Body, at)
	if err != nil {
		p.record.strange("sign a report: %v", err)
		return answer{}
	}
	a := p.caller.send(ctx, http.MethodPost, "/callbacks/standard/"+rep.Account, header, rep.Body)
	p.record.answered(rep, a)
	return a
}
