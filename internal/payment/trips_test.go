package payment_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/stock"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// counter counts statements, BEGIN and COMMIT among them, and keeps the errors they ended with.
type counter struct {
	statements atomic.Int64
	failed     atomic.Int64
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if data.Err != nil {
		c.failed.Add(1)
	}
}

// The common payment costs three statements at the entry and one when it is booked, none of which fails. What is not common is
// told so by a statement that does nothing, and takes the long way to the same end.
func TestTheCommonPaymentIsStoredAndBookedByOneStatementEach(t *testing.T) {
	t.Parallel()
	h, driver := newHouse(t)
	count := &counter{}
	config := h.Engine.Config()
	config.ConnConfig.Tracer = count
	config.MaxConns = 1
	counted, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(counted.Close)
	h.Engine = counted
	h.Open(t, driver)
	book := func(id int64) (payment.Applied, int64) {
		before := count.statements.Load()
		applied, err := h.Books.Apply(t.Context(), id)
		require.NoError(t, err)
		return applied, count.statements.Load() - before
	}

	// The first payment makes the accounts: a statement fails for it, and what follows does it step by step.
	h.Create(t, testhouse.Order("first", 100))
	applied, _ := book(h.Report(t, testhouse.Paid(t, "tx0", "first", 100)).EventID)
	require.Equal(t, payment.Credited, applied.Outcome)
	require.EqualValues(t, 1, count.failed.Swap(0))

	for _, number := range []string{"o", "p"} { // statements are prepared the first time
		h.Create(t, testhouse.Order(number, 100))
		before := count.statements.Load()
		first := h.Report(t, testhouse.Paid(t, "tx"+number, number, 100))
		require.EqualValues(t, 3, count.statements.Load()-before, "look up, read the order, store")
		applied, statements := book(first.EventID)
		require.Equal(t, payment.Applied{EventState: payment.Done, Outcome: payment.Credited, PaymentState: payment.Paid}, applied)
		require.EqualValues(t, 1, statements)
		again, _ := book(first.EventID)
		require.Equal(t, applied, again)
	}

	code := testhouse.Order("code", 100)
	code.RedemptionCode = true
	h.Create(t, code)
	second := testhouse.Paid(t, "second", "o", 100)
	for _, c := range []struct {
		what string
		body []byte
		want payment.Outcome
	}{
		{"wants a code", testhouse.Paid(t, "tx code", "code", 100), payment.Credited},
		{"is paid already", second, payment.SecondPayment},
	} {
		applied, statements := book(h.Report(t, c.body).EventID)
		require.Equal(t, c.want, applied.Outcome, c.what)
		require.Greater(t, statements, int64(1), c.what)
	}
	// What the row says, and what the order asks for, is looked at again where it is booked.
	require.NoError(t, database.InTenantTx(t.Context(), h.API, h.Tenant, func(tx pgx.Tx) error {
		_, err := stock.Put(t.Context(), tx, h.Tenant, "book", 5, 0)
		return err
	}))
	for i, c := range []struct {
		event, order string
		goods        bool
		want         payment.Outcome
		merchant     int
	}{
		{event: "fee = 3", want: payment.Credited, merchant: 497},
		{goods: true, want: payment.Credited, merchant: 597},
		{event: "mismatch = 'of another app'", want: payment.ContextMismatch, merchant: 597},
		{event: "amount = 99", want: payment.AmountMismatch, merchant: 597},
		{event: "currency = 'USD'", want: payment.CurrencyMismatch, merchant: 597},
		{order: "account_id = (SELECT max(id) FROM channel_accounts)", want: payment.ContextMismatch, merchant: 597},
	} {
		number := fmt.Sprint("n", i)
		r := testhouse.Order(number, 100)
		if c.goods {
			r.Items = []stock.Item{{SKU: "book", Quantity: 2}}
		}
		h.Create(t, r)
		id := h.Report(t, testhouse.Paid(t, "tx "+number, number, 100)).EventID
		if c.event != "" {
			_, err := h.Owner.Exec(t.Context(), "UPDATE channel_events SET "+c.event+" WHERE id = $1", id)
			require.NoError(t, err)
		}
		if c.order != "" {
			h.AddAccount(t, h.Tenant, "other-"+h.Tenant, h.Secret)
			_, err := h.Owner.Exec(t.Context(), "UPDATE payments SET "+c.order+" WHERE out_trade_no = $1", number)
			require.NoError(t, err)
		}
		applied, _ := book(id)
		require.Equal(t, c.want, applied.Outcome, "%+v", c)
		require.Equal(t, c.merchant, h.Balance(t, "merchant"), "%+v", c)
	}
	require.Equal(t, 3, h.Count(t, "SELECT on_hand FROM stock WHERE sku = 'book'"))
	require.Zero(t, count.failed.Load())
	require.Equal(t, 100, h.Balance(t, "suspense"))
	h.RequireInvariants(t)
}
