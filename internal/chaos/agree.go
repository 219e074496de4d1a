package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// agree asks the API, as each merchant, for its orders and accounts, and finds where it tells otherwise than the books.
func agree(ctx context.Context, l *load, b *Books) ([]Finding, error) {
	c := &comparison{}
	states := map[name]string{}
	for _, o := range b.Orders {
		states[name{o.Tenant, o.Number}] = o.State
	}
	for _, m := range l.record.Merchants {
		p := &player{load: l, merchant: m}
		told, err := ordersOf(ctx, p)
		if err != nil {
			return nil, err
		}
		for number, state := range told {
			if in := states[name{m.Tenant, number}]; in != state {
				c.find(Wrong, "merchant %s is told that order %s is %s, the books say %q", m.Tenant, number, state, in)
			}
			delete(states, name{m.Tenant, number})
		}
	}
	for at, state := range states {
		c.find(Wrong, "merchant %s is not told of order %s, which is %s", at.tenant, at.name, state)
	}
	for _, a := range b.Balances {
		m := l.record.merchant(a.Tenant)
		if m == nil {
			continue // not one of the record
		}
		p := &player{load: l, merchant: m}
		var told struct {
			Balance int64 `json:"balance"`
		}
		if err := p.get(ctx, "/v1/accounts/"+url.PathEscape(a.Code)+"?currency="+a.Currency, &told); err != nil {
			return nil, err
		}
		if told.Balance != a.Balance {
			c.find(Wrong, "merchant %s is told %d of account %s %s, the books say %d", a.Tenant, told.Balance, a.Code, a.Currency, a.Balance)
		}
	}
	return c.findings, nil
}

// ordersOf reads all orders of a merchant, page by page.
func ordersOf(ctx context.Context, p *player) (map[string]string, error) {
	states := map[string]string{}
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				Number string `json:"out_trade_no"`
				State  string `json:"state"`
			} `json:"items"`
			Next string `json:"next_cursor"`
		}
		if err := p.get(ctx, "/v1/payments?limit=200&cursor="+url.QueryEscape(cursor), &page); err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			states[o.Number] = o.State
		}
		if cursor = page.Next; cursor == "" {
			return states, nil
		}
	}
}

// get reads one answer of the API, which is up by now.
func (p *player) get(ctx context.Context, path string, into any) error {
	var last answer
	if !insist(ctx, func() bool {
		last = p.call(ctx, http.MethodGet, path, nil, nil)
		return !last.passing()
	}) {
		return fmt.Errorf("GET %s: %w", path, ctx.Err())
	}
	if last.status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, last.status, last.body)
	}
	if err := json.Unmarshal(last.body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

func (r *Record) merchant(tenant string) *Merchant {
	for _, m := range r.Merchants {
		if m.Tenant == tenant {
			return m
		}
	}
	return nil
}
