package testhouse

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/transfer"
)

// House is the house on a test's database, with one tenant and one account of the standard channel.
type House struct {
	*Database
	Orders   *payment.Orders
	Entry    *payment.Entry
	Books    *payment.Books
	Accounts *tenant.Accounts
	// Matters are what events of other kinds than payments are about.
	Matters []payment.Matter
	// Transfers hands its flows to the same driver.
	Transfers *transfer.Service
	// Shares divides payments.
	Shares *share.Service
	// Acquiring asks channels about orders; so do its flows.
	Acquiring *acquiring.Service
	// Refunds takes refunds; its flows go to the same driver.
	Refunds *refund.Service
	Clock   *Clock
	Log     *zap.Logger

	// Channels are those of this build, unless the test has others.
	Channels channel.Set
	// PublicURL is what channels are told to call back; set it before Reopen.
	PublicURL string
	MasterKey string
	Tenant    string
	APIKey    string
	Account   tenant.Account
	Secret    string
}

// Clock is a clock that tests move.
type Clock struct{ ahead atomic.Int64 }

// Now is the real time plus what the test has let pass.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Pass lets time pass at once.
func (c *Clock) Pass(d time.Duration) { c.ahead.Add(int64(d)) }

var tenants atomic.Int64

// Driver hands on what the house stores.
type Driver interface {
	payment.Driver
	transfer.Driver
	acquiring.Driver
	share.Driver
	refund.Driver
}

// New builds a house on a database of its own; driver hands its events on. The names of tenants differ between houses, so
// that their flows do not meet in one engine.
func New(t testing.TB, driver Driver) *House {
	t.Helper()
	return On(t, NewDatabase(t), driver)
}

// On builds a house on a database that exists.
func On(t testing.TB, db *Database, driver Driver) *House {
	t.Helper()
	return Through(t, db, driver, registry.All())
}

// Through is [On] with channels of the test's own.
func Through(t testing.TB, db *Database, driver Driver, channels channel.Set) *House {
	t.Helper()
	h := &House{Database: db, Channels: channels, Clock: &Clock{}, MasterKey: sealed.NewKey(), Log: zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))}
	h.Open(t, driver)
	var err error
	h.Tenant = fmt.Sprintf("t%d-%d", time.Now().UnixNano(), tenants.Add(1))
	h.APIKey, err = tenant.Add(t.Context(), db.Engine, h.Tenant, "CNY")
	require.NoError(t, err)
	h.Secret = NewSecret()
	h.Account = h.AddAccount(t, h.Tenant, "acct-"+h.Tenant, h.Secret)
	return h
}

// Open builds the house's parts anew: for a test that has changed its log, its clock or its URL.
func (h *House) Open(t testing.TB, driver Driver) {
	t.Helper()
	box, err := sealed.New(h.MasterKey)
	require.NoError(t, err)
	h.Accounts = tenant.NewAccounts(h.Engine, h.Channels, box)
	h.Orders = payment.NewOrders(h.API, h.Accounts.Asks)
	h.Matters = []payment.Matter{share.NewMatter(h.Clock.Now), refund.NewMatter(h.Accounts, h.Clock.Now)}
	h.Books = payment.NewBooks(h.Engine, h.Log, h.Matters...)
	h.Entry = payment.NewEntry(h.Engine, h.Accounts, driver, h.Log, payment.DefaultPlan, h.Clock.Now, h.Matters...)
	h.Shares = share.NewService(h.Engine, h.Accounts, h.Entry, driver, h.Log, h.Clock.Now)
	h.Refunds = refund.New(refund.Config{
		Pool: h.Engine, Accounts: h.Accounts, Entry: h.Entry, Driver: driver, Shares: h.Shares, PublicURL: h.PublicURL, Log: h.Log, Now: h.Clock.Now,
	})
	h.Acquiring = acquiring.New(acquiring.Config{
		Pool: h.Engine, Accounts: h.Accounts, Entry: h.Entry, Books: h.Books, Driver: driver, PublicURL: h.PublicURL, Log: h.Log, Now: h.Clock.Now,
	})
	h.Transfers = transfer.NewService(h.Engine, box, driver, h.Log, h.Clock.Now)
}

// NewSecret makes a secret of the standard channel.
func NewSecret() string {
	key := sealed.NewKey() // 32 random bytes in base64
	return "whsec_" + key
}

// AddAccount adds an account of the standard channel.
func (h *House) AddAccount(t testing.TB, tenantID, name string, secrets ...string) tenant.Account {
	t.Helper()
	config, err := json.Marshal(standard.Config{Secrets: secrets})
	require.NoError(t, err)
	require.NoError(t, h.Accounts.Add(t.Context(), tenantID, standard.Name, name, config))
	acct, err := h.Accounts.Find(t.Context(), standard.Name, name)
	require.NoError(t, err)
	return acct
}

// Order is a valid request for an order.
func Order(outTradeNo string, amount int64) payment.Request {
	return payment.Request{OutTradeNo: outTradeNo, Amount: amount, Currency: "CNY", Metadata: json.RawMessage("{}")}
}

// Create makes an order and looks for its events, as the API does.
func (h *House) Create(t testing.TB, r payment.Request) payment.Payment {
	t.Helper()
	p, _, err := h.Orders.Create(t.Context(), h.Tenant, r, h.Clock.Now())
	require.NoError(t, err)
	require.NoError(t, h.Entry.OrderCreated(t.Context(), h.Tenant, r.OutTradeNo))
	return p
}

// Body is a message of the standard channel.
func Body(t testing.TB, kind, transactionID, outTradeNo string, amount int64, currency string) []byte {
	t.Helper()
	body, err := json.Marshal(standard.Message{Type: kind, Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: standard.Data{
		TransactionID: transactionID, OutTradeNo: outTradeNo, Amount: amount, Currency: currency,
	}})
	require.NoError(t, err)
	return body
}

// Paid is the success message of a payment.
func Paid(t testing.TB, transactionID, outTradeNo string, amount int64) []byte {
	t.Helper()
	return Body(t, "payment.succeeded", transactionID, outTradeNo, amount, "CNY")
}

// Report takes a body through the entry and gives what became of its one event.
func (h *House) Report(t testing.TB, body []byte) payment.Reported {
	t.Helper()
	results, err := h.Entry.Report(t.Context(), h.Account, body, h.Clock.Now())
	require.NoError(t, err)
	require.Len(t, results, 1)
	return results[0]
}

// State is an order's state.
func (h *House) State(t testing.TB, outTradeNo string) payment.State {
	t.Helper()
	p, err := h.Orders.Get(t.Context(), h.Tenant, outTradeNo)
	require.NoError(t, err)
	return p.State
}

// Events lists an order's events, oldest first, as "STATE OUTCOME".
func (h *House) Events(t testing.TB, outTradeNo string) (list []string) {
	t.Helper()
	events, err := h.Orders.Events(t.Context(), h.Tenant, payment.EventFilter{OutTradeNo: outTradeNo, Limit: 200})
	require.NoError(t, err)
	for i := len(events) - 1; i >= 0; i-- {
		outcome := ""
		if events[i].Outcome != nil {
			outcome = " " + string(*events[i].Outcome)
		}
		list = append(list, string(events[i].State)+outcome)
	}
	return list
}

// Balance is the balance of one of the tenant's accounts in CNY; 0 if it does not exist.
func (h *House) Balance(t testing.TB, code string) int {
	t.Helper()
	return h.Count(t, "SELECT coalesce(sum(balance), 0) FROM ledger_accounts WHERE tenant_id = $1 AND code = $2 AND currency = 'CNY'", h.Tenant, code)
}

// Journals counts the tenant's journals.
func (h *House) Journals(t testing.TB) int {
	t.Helper()
	return h.Count(t, "SELECT count(*) FROM journals WHERE tenant_id = $1", h.Tenant)
}

// Deliveries is a driver that keeps what it is given, for tests that book by hand.
type Deliveries struct {
	mu        sync.Mutex
	list      []payment.Delivery
	transfers []transfer.Transfer
	shares    []share.Share
	inquiries []acquiring.Ref
	refunds   []refund.Ref
	tried     int
	// Err makes it refuse.
	Err error
}

// Deliver implements [payment.Driver].
func (d *Deliveries) Deliver(_ context.Context, delivery payment.Delivery) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Err != nil {
		return d.Err
	}
	d.list = append(d.list, delivery)
	return nil
}

// StartTransfer implements [transfer.Driver].
func (d *Deliveries) StartTransfer(_ context.Context, t transfer.Transfer, _ bool) (run string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Err != nil {
		return "", d.Err
	}
	d.transfers = append(d.transfers, t)
	return "", nil
}

// StartInquiry implements [acquiring.Driver].
func (d *Deliveries) StartInquiry(_ context.Context, o acquiring.Ref) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Err != nil {
		return d.Err
	}
	d.inquiries = append(d.inquiries, o)
	return nil
}

// TakeInquiries gives the orders that were to be asked about since the last call.
func (d *Deliveries) TakeInquiries() []acquiring.Ref {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.inquiries
	d.inquiries = nil
	return taken
}

// TakeTransfers gives the transfers that were to be started since the last call.
func (d *Deliveries) TakeTransfers() []transfer.Transfer {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.transfers
	d.transfers = nil
	return taken
}

// StartRefund implements [refund.Driver].
func (d *Deliveries) StartRefund(_ context.Context, r refund.Ref, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried++
	if d.Err != nil {
		return d.Err
	}
	d.refunds = append(d.refunds, r)
	return nil
}

// WakeRefund implements [refund.Driver].
func (d *Deliveries) WakeRefund(ctx context.Context, r refund.Ref) error {
	return d.StartRefund(ctx, r, true)
}

// TriedRefunds counts how often a refund was to be started or woken, in vain or not.
func (d *Deliveries) TriedRefunds() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tried
}

// TakeRefunds gives the refunds that were to be started or woken since the last call.
func (d *Deliveries) TakeRefunds() []refund.Ref {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.refunds
	d.refunds = nil
	return taken
}

// Take gives what was delivered since the last call.
func (d *Deliveries) Take() []payment.Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.list
	d.list = nil
	return taken
}

// Book applies everything that was delivered and gives the outcomes.
func (d *Deliveries) Book(t testing.TB, books *payment.Books) (outcomes []payment.Outcome) {
	t.Helper()
	for _, delivery := range d.Take() {
		applied, err := books.Apply(t.Context(), delivery.EventID)
		require.NoError(t, err)
		outcomes = append(outcomes, applied.Outcome)
	}
	return outcomes
}

// Reopen builds the same house anew, as a process that starts again.
func Reopen(t testing.TB, h *House, driver Driver) *House {
	t.Helper()
	db := &Database{OwnerURL: h.OwnerURL, EngineURL: h.EngineURL, APIURL: h.APIURL}
	db.Owner, db.Engine, db.API = openPool(t, h.OwnerURL), openPool(t, h.EngineURL), openPool(t, h.APIURL)
	again := *h
	again.Database = db
	again.Open(t, driver)
	return &again
}
