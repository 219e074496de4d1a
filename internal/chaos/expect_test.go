package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatMayBecomeOfAnOrder(t *testing.T) {
	t.Parallel()
	type reports = []*Report
	report := func(kind, transaction string, amount int64, acked int) *Report {
		return &Report{Kind: kind, Transaction: transaction, Amount: amount, Currency: "CNY", Sent: 2, Acked: acked}
	}
	paid := func(transaction string) *Report { return report(PaySuccess, transaction, 100, 1) }
	wrong := func(transaction string) *Report { return report(PaySuccess, transaction, 99, 1) }
	unsure := func(transaction string) *Report { return report(PaySuccess, transaction, 100, 0) }
	closed := report(PayClosed, "c", 100, 1)
	for name, c := range map[string]struct {
		order   Order
		reports reports
		want    expectation
	}{
		"nobody pays":                      {Order{}, nil, expectation{pending: true}},
		"nobody pays in time":              {Order{Expires: 2}, nil, expectation{closed: true}},
		"paid":                             {Order{}, reports{paid("a")}, expectation{due: []string{"a"}, paid: true}},
		"paid around its expiry":           {Order{Expires: 2}, reports{paid("a")}, expectation{due: []string{"a"}, paid: true, closed: true}},
		"perhaps paid":                     {Order{}, reports{unsure("a")}, expectation{maybe: []string{"a"}, paid: true, pending: true}},
		"never sent":                       {Order{}, reports{{Kind: PaySuccess, Transaction: "a", Amount: 100, Currency: "CNY"}}, expectation{pending: true}},
		"paid twice":                       {Order{}, reports{paid("a"), paid("b")}, expectation{due: []string{"a", "b"}, paid: true}},
		"paid wrong":                       {Order{}, reports{wrong("a")}, expectation{wrong: []string{"a"}, pending: true}},
		"paid in another currency":         {Order{}, reports{{Kind: PaySuccess, Transaction: "a", Amount: 100, Currency: "USD", Sent: 1, Acked: 1}}, expectation{wrong: []string{"a"}, pending: true}},
		"wrong, then right":                {Order{}, reports{wrong("a"), paid("a")}, expectation{due: []string{"a"}, paid: true}},
		"right, then wrong":                {Order{}, reports{paid("a"), wrong("a")}, expectation{due: []string{"a"}, paid: true}},
		"a failed attempt":                 {Order{}, reports{report(PayFailed, "a", 100, 1)}, expectation{pending: true}},
		"closed by the channel":            {Order{}, reports{closed}, expectation{closed: true}},
		"perhaps closed by the channel":    {Order{}, reports{report(PayClosed, "c", 100, 0)}, expectation{closed: true, pending: true}},
		"closed and paid":                  {Order{}, reports{closed, paid("a")}, expectation{due: []string{"a"}, paid: true, closed: true}},
		"closed, and paid later":           {Order{Close: CloseDone, ClosedFirst: true}, reports{paid("a")}, expectation{due: []string{"a"}, closed: true}},
		"told closed while it was paid":    {Order{Close: CloseDone}, reports{paid("a")}, expectation{due: []string{"a"}, closed: true}},
		"told paid while it was closed":    {Order{Close: ClosePaid}, reports{paid("a")}, expectation{due: []string{"a"}, paid: true}},
		"closing never answered, and paid": {Order{Close: CloseUnknown}, reports{paid("a")}, expectation{due: []string{"a"}, paid: true, closed: true}},
		"closing never answered":           {Order{Close: CloseUnknown}, nil, expectation{closed: true, pending: true}},
	} {
		c.order.Amount, c.order.Currency = 100, "CNY"
		got := expect(&c.order, c.reports)
		require.Equal(t, c.want, got, name)
		for _, state := range []string{"PAID", "SHIPPED", "COMPLETED"} {
			require.Equal(t, c.want.paid, got.allows(state), name)
		}
		require.Equal(t, c.want.closed, got.allows("CLOSED"), name)
		require.Equal(t, c.want.pending, got.allows("PENDING"), name)
		require.False(t, got.allows("REFUNDED"), name)
	}
}
