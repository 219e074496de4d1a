package chaos

import (
	"context"
	"net/http"
)

// waiting are the lists of what waits for a channel, and how its items are named.
var waiting = []struct{ path, state, number string }{
	{"/v1/refunds", "PENDING", "out_refund_no"},
	{"/v1/refunds", "UNKNOWN", "out_refund_no"},
	{"/v1/shares", "PENDING", "out_order_no"},
	{"/v1/shares", "UNKNOWN", "out_order_no"},
	{"/v1/shares", "PROCESSING", "out_order_no"},
}

// nudge has the channels asked about every refund and sharing that has not ended, as an operator may: their flows ask less and
// less often.
func (l *load) nudge(ctx context.Context) {
	for _, m := range l.record.Merchants {
		p := &player{load: l, merchant: m}
		for _, w := range waiting {
			var open struct {
				Items []map[string]any `json:"items"`
			}
			if err := p.get(ctx, w.path+"?limit=200&state="+w.state, &open); err != nil {
				continue // the next round tries again
			}
			for _, item := range open.Items {
				if number, ok := item[w.number].(string); ok {
					p.call(ctx, http.MethodPost, w.path+"/"+number+"/retry", nil, map[string]any{})
				}
			}
		}
	}
}
