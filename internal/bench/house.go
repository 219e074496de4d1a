package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
)

// HouseConfig is what a benchmark of callbacks has to itself: a migrated database with the tenant "bench", and a namespace.
type HouseConfig struct {
	OwnerURL string
	// Temporal has the search attributes already.
	Temporal client.Options
	// Reporter makes the callbacks.
	Reporter Reporter
	// Remembered is how many DONE events a process remembers.
	Remembered int
	// Log takes what paylatch has to say at the level info, as a running one does; where it goes is not measured.
	Log *zap.Logger
}

// house is API and worker on these, each with pools of its own, so that what each asks of the database can be told apart.
type house struct {
	HouseConfig
	owner             *pgx.Conn
	entryDB, bookDB   *pgxpool.Pool // of the API's entry and of the worker
	apiDB, redriveDB  *pgxpool.Pool
	atEntry, atBooks  *meter
	accounts          *tenant.Accounts
	books             *payment.Books
	polling, other    client.Client // what the worker polls with, and what another process would start flows with
	watcher           *watcher
	background        sync.WaitGroup
	ctx               context.Context // ends what runs in the background
	stop              context.CancelFunc
	path, accountName string
}

// connections is what a process has by default.
const connections = 16

func openHouse(ctx context.Context, c HouseConfig) (h *house, err error) {
	h = &house{HouseConfig: c, atEntry: &meter{}, atBooks: &meter{}, watcher: &watcher{}, accountName: "bench"}
	h.path = "/callbacks/" + c.Reporter.Name() + "/" + h.accountName
	h.ctx, h.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.owner, err = pgx.Connect(ctx, c.OwnerURL); err != nil {
		return h, fmt.Errorf("connect to the database: %w", err)
	}
	for _, p := range []struct {
		pool  **pgxpool.Pool
		role  string
		meter *meter
	}{{&h.entryDB, database.RoleEngine, h.atEntry}, {&h.bookDB, database.RoleEngine, h.atBooks}, {&h.apiDB, database.RoleAPI, &meter{}}, {&h.redriveDB, database.RoleEngine, &meter{}}} {
		if *p.pool, err = openMetered(ctx, c.OwnerURL, p.role, p.meter); err != nil {
			return h, err
		}
	}
	polled := c.Temporal
	polled.Interceptors = append(polled.Interceptors[:len(polled.Interceptors):len(polled.Interceptors)], h.watcher)
	if h.polling, err = engine.Open(polled); err != nil {
		return h, err
	}
	if h.other, err = engine.Open(c.Temporal); err != nil {
		return h, err
	}
	box, err := sealed.New(sealed.NewKey())
	if err != nil {
		return h, err
	}
	h.accounts = tenant.NewAccounts(h.entryDB, registry.All(), box)
	h.books = payment.NewBooks(h.bookDB, c.Log)
	if err := h.accounts.Add(ctx, tenantName, c.Reporter.Name(), h.accountName, c.Reporter.Config); err != nil {
		return h, err
	}
	h.background.Go(func() { h.accounts.Watch(h.ctx, c.Log) })
	return h, nil
}

// openMetered opens a pool as the program does, with a meter on it.
func openMetered(ctx context.Context, ownerURL, role string, m *meter) (*pgxpool.Pool, error) {
	url, err := database.AsRole(ownerURL, role)
	if err != nil {
		return nil, err
	}
	plain, err := database.Open(url, connections)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	config := plain.Config()
	config.ConnConfig.Tracer = m
	return pgxpool.NewWithConfig(ctx, config)
}

func (h *house) close() {
	h.stop()
	h.background.Wait()
	for _, c := range []client.Client{h.polling, h.other} {
		if c != nil {
			c.Close()
		}
	}
	for _, pool := range []*pgxpool.Pool{h.entryDB, h.bookDB, h.apiDB, h.redriveDB} {
		if pool != nil {
			pool.Close()
		}
	}
	if h.owner != nil {
		_ = h.owner.Close(context.WithoutCancel(h.ctx)) // everything has been read
	}
}

func (h *house) entry(pool *pgxpool.Pool, driver payment.Driver) *payment.Entry {
	return payment.NewEntry(pool, h.accounts, driver, h.Log, payment.DefaultPlan, nil)
}

// serve runs an API, with its re-drive, until it is stopped. done is what it remembers; nil: nothing.
func (h *house) serve(driver payment.Driver, done cache.Cache) (base string, stop func(), err error) {
	entry := h.entry(h.entryDB, driver)
	if done != nil {
		entry.UseCache(done)
	}
	base, stopAPI, err := h.listen(api.Handler(api.Config{
		Orders:      payment.NewOrders(h.apiDB, nil),
		Entry:       entry,
		Books:       h.books,
		Accounts:    h.accounts,
		API:         h.apiDB,
		Engine:      h.entryDB,
		WorkflowURL: func(string) string { return "" },
		Log:         h.Log,
	}))
	if err != nil {
		return "", nil, err
	}
	ctx, stopRedrive := context.WithCancel(h.ctx)
	var redrive sync.WaitGroup
	redrive.Go(func() { worker.Redrive(ctx, h.Log, h.entry(h.redriveDB, driver)) })
	return base, func() { stopAPI(); stopRedrive(); redrive.Wait() }, nil
}

// listen serves as the program does.
func (h *house) listen(handler http.Handler) (base string, stop func(), err error) {
	ctx, cancel := context.WithCancel(h.ctx)
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- api.Serve(ctx, "127.0.0.1:0", handler, h.Log, func(at string) { address <- at })
	}()
	select {
	case at := <-address:
		return "http://" + at, func() { cancel(); <-ended }, nil
	case err := <-ended:
		cancel()
		return "", nil, errors.Join(err, ctx.Err())
	}
}

// callback is one order and what reports it as paid.
type callback struct {
	number  string
	message []byte
	// body is the message as it was signed, and request is all of it as it is sent.
	body, request []byte
	signed        time.Time
}

// orders creates n orders, which is no part of what is measured.
func (h *house) orders(ctx context.Context, run string, n int) ([]callback, error) {
	orders := payment.NewOrders(h.apiDB, nil)
	list := make([]callback, n)
	err := each(ctx, n, connections, func(ctx context.Context, i int) error {
		number := run + "-" + strconv.Itoa(i)
		_, _, err := orders.Create(ctx, tenantName, payment.Request{OutTradeNo: number, Amount: 100, Currency: "CNY", Metadata: []byte("{}")}, time.Now())
		if err != nil {
			return err
		}
		list[i].number = number
		list[i].message, err = h.Reporter.Compose(channel.Sample{
			TransactionID: "tx-" + number, OutTradeNo: number, Amount: 100, Currency: "CNY", OccurredAt: time.Now(),
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create orders: %w", err)
	}
	return list, nil
}

// signedFor is how long a signature is used: a channel takes it for five minutes.
const signedFor = 2 * time.Minute

// sign makes the requests of callbacks that have none, or an old one: who sends is not what is measured.
func (h *house) sign(ctx context.Context, list []callback) error {
	return each(ctx, len(list), 2, func(_ context.Context, i int) error {
		c := &list[i]
		now := time.Now()
		if now.Sub(c.signed) < signedFor {
			return nil
		}
		header, body, err := h.Reporter.Sign(c.message, now)
		if err != nil {
			return fmt.Errorf("sign a callback: %w", err)
		}
		c.body, c.request, c.signed = body, requestBytes(h.path, header, body), now
		return nil
	})
}

// flowID is the id of an order's flow.
func flowID(number string) string { return workflows.PaymentID(tenantName, number) }
