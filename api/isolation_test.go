package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// statement is what was asked of a database.
type statement struct {
	SQL  string
	Args []any
}

// asked keeps the statements of a pool.
type asked struct {
	mu   sync.Mutex
	list []statement
}

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, statement{data.SQL, data.Args})
	return ctx
}

func (a *asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (a *asked) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range data.Batch.QueuedQueries {
		a.list = append(a.list, statement{q.SQL, q.Arguments})
	}
	return ctx
}

func (a *asked) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (a *asked) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// take gives what was asked since the last take.
func (a *asked) take() []statement {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

// listening opens a pool whose statements are kept.
func listening(t *testing.T, url string) (*pgxpool.Pool, *asked) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.MaxConns = 8
	said := &asked{}
	cfg.ConnConfig.Tracer = said
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, said
}

// whole fills a tenant with one of everything, and gives what stands for each path's parameter.
func (f *face) whole(t *testing.T) map[string]string {
	t.Helper()
	f.order(t, "o")
	f.pay(t, "tx", "o", 9900)
	f.report(t, testhouse.Paid(t, "tx-wrong", "o", 1)) // parked
	f.account(t, "a", 500)
	f.put(t, "book", 5)
	_, key := f.issue(t, tenant.Read)
	f.call(t, "POST", "/v1/payments/o/refunds", refundBody("r", 1)).is(t, 201)
	f.call(t, "POST", "/v1/payments/o/shares", `{"out_order_no":"mine","receivers":[{"account":"r","amount":1}]}`).is(t, 201)
	return map[string]string{
		"/v1/payments/{out_trade_no}": "o",
		"/v1/events/{id}":             fmt.Sprint(f.call(t, "GET", "/v1/events?state=PARKED", "").items(t, "id")[0]),
		"/v1/accounts/{code}":         "channel:standard:" + f.Account.Name,
		"/v1/transfers/{id}":          fmt.Sprint(f.transfer(t, "k", move("a", "merchant", 1)).is(t, 201).fields(t)["id"]),
		"/v1/stock/{sku}":             "book",
		"/v1/refunds/{out_refund_no}": "r",
		"/v1/shares/{out_order_no}":   "mine",
		"/v1/api_keys/{id}":           fmt.Sprint(key.ID),
	}
}

// pathOf gives an operation's path with what stands for its parameter.
func pathOf(t *testing.T, o operation, mine map[string]string) string {
	t.Helper()
	parameter := parameterPattern.FindString(o.Path)
	if parameter == "" {
		return o.Path
	}
	name := o.Path[:strings.Index(o.Path, "}")+1]
	require.NotEmpty(t, mine[name], "%s has a parameter that this test does not know", o.Path)
	return strings.Replace(o.Path, parameter, mine[name], 1)
}

func TestWhatMerchantsReadIsReadUnderRowLevelSecurity(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	mine := f.whole(t)
	other := f.Tenant + "-other"
	_, err := tenant.Add(t.Context(), f.Engine, other, "CNY")
	require.NoError(t, err)
	plain := f.API
	var engine, merchant *asked
	f.Engine, engine = listening(t, f.EngineURL)
	f.API, merchant = listening(t, f.APIURL)
	f.serve(t, f.driver)
	f.call(t, "GET", "/v1/payments", "").is(t, 200) // notes that its key is used
	engine.take()
	merchant.take()

	checked := 0
	for _, o := range merchantOperations() {
		if o.Method != http.MethodGet {
			continue
		}
		name := o.Method + " " + o.Path
		f.call(t, o.Method, pathOf(t, o, mine), "").is(t, 200)
		for _, s := range engine.take() {
			require.Contains(t, s.SQL, "FROM api_keys", "%s: the role that sees all tenants is asked who calls, and nothing else", name)
		}
		reads := 0
		for _, s := range merchant.take() {
			if !strings.Contains(s.SQL, "SELECT") || strings.Contains(s.SQL, "set_config") {
				continue
			}
			reads++
			// The same statement, which asks for this tenant's rows, finds none where the transaction is another's.
			require.Zero(t, rowsOf(t, plain, other, s), "%s: %s", name, s.SQL)
			if !strings.Contains(s.SQL, "share_returns") { // this tenant has none
				require.Positive(t, rowsOf(t, plain, f.Tenant, s), "%s: %s", name, s.SQL)
			}
		}
		require.Positive(t, reads, name)
		checked++
	}
	require.GreaterOrEqual(t, checked, 14)
}

// rowsOf runs a statement in a tenant's transaction and counts what it gives.
func rowsOf(t *testing.T, api *pgxpool.Pool, tenantID string, s statement) (n int) {
	t.Helper()
	require.NoError(t, database.InTenantTx(t.Context(), api, tenantID, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), s.SQL, s.Args...)
		if err != nil {
			return err
		}
		for rows.Next() {
			n++
		}
		return rows.Err()
	}))
	return n
}

func TestWhatAPostShowsIsReadUnderRowLevelSecurity(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.whole(t)
	var merchant *asked
	f.API, merchant = listening(t, f.APIURL)
	f.serve(t, f.driver)
	for _, c := range []struct{ path, body, shown string }{
		{"/v1/payments", orderBody("new"), "FROM payments"},
		{"/v1/transfers", strings.TrimSuffix(move("a", "merchant", 1), "}") + `,"mode":"tcc","reference":"x"}`, "FROM transfers"},
	} {
		merchant.take()
		f.call(t, "POST", c.path, c.body).is(t, 201)
		require.True(t, slices.ContainsFunc(merchant.take(), func(s statement) bool { return strings.Contains(s.SQL, c.shown) }), c.path)
	}
}
