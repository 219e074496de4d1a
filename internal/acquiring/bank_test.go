package acquiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// bank is an acquirer that does what a test tells it. It speaks as the standard channel does.
type bank struct {
	standard.Channel

	mu     sync.Mutex
	calls  []string // "prepay o1", "query o1", …
	orders map[string]channel.OrderState
	// before runs before a kind of call reaches the bank, after when it has; each as often as the call is made.
	before, after map[string]func()
	// refuse are the errors of calls that do nothing, fail those of calls that are done.
	refuse, fail map[string]error
}

func (b *bank) Name() string { return "bank" }

func (b *bank) Open(name string, config []byte) (channel.Account, error) {
	account, err := b.Channel.Open(name, config)
	return &bankAccount{Account: account, bank: b}, err
}

type bankAccount struct {
	channel.Account
	channel.Acquirer // what no test here calls
	*bank
}

func (b *bank) call(kind, number string, do func()) error {
	if hook := b.before[kind]; hook != nil {
		hook()
	}
	b.mu.Lock()
	b.calls = append(b.calls, kind+" "+number)
	err := b.refuse[kind]
	if err == nil {
		do()
		err = b.fail[kind]
	}
	b.mu.Unlock()
	if hook := b.after[kind]; hook != nil {
		hook()
	}
	return err
}

func (b *bank) called() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func (b *bank) state(number string) channel.OrderState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orders[number]
}

func (b *bank) set(number string, state channel.OrderState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders[number] = state
}

func (a *bankAccount) Prepay(_ context.Context, o channel.Order) (p channel.Prepaid, err error) {
	err = a.call("prepay", o.OutTradeNo, func() {
		if a.orders[o.OutTradeNo] == "" {
			a.orders[o.OutTradeNo] = channel.OrderOpen
		}
	})
	return channel.Prepaid{Data: json.RawMessage(`{"code_url":"bank://` + o.OutTradeNo + `"}`), Reference: "ref-" + o.OutTradeNo}, err
}

func (a *bankAccount) Query(_ context.Context, o channel.Order) (s channel.Standing, err error) {
	err = a.call("query", o.OutTradeNo, func() {
		if s.State = a.orders[o.OutTradeNo]; s.State == "" {
			s.State = channel.OrderUnknown
		}
	})
	if s.State == channel.OrderPaid {
		s.Body = paid(o.OutTradeNo, o.Amount)
	}
	return s, err
}

func (a *bankAccount) Close(_ context.Context, o channel.Order) error {
	isPaid := false
	err := a.call("close", o.OutTradeNo, func() {
		switch a.orders[o.OutTradeNo] {
		case channel.OrderPaid:
			isPaid = true
		case channel.OrderOpen:
			a.orders[o.OutTradeNo] = channel.OrderClosed
		}
	})
	if isPaid {
		return channel.ErrPaid
	}
	return err
}

func paid(outTradeNo string, amount int64) []byte {
	body, err := json.Marshal(standard.Message{Type: "payment.succeeded", Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: standard.Data{
		TransactionID: "txn-" + outTradeNo, OutTradeNo: outTradeNo, Amount: amount, Currency: "CNY",
	}})
	if err != nil {
		panic(err) // texts and a number
	}
	return body
}

// branch is a house with an account at the bank.
type branch struct {
	*testhouse.House
	*bank
	t      *testing.T
	driver *testhouse.Deliveries
	acct   tenant.Account
	told   *observer.ObservedLogs
}

func openBranch(t *testing.T) *branch {
	t.Helper()
	b := &branch{t: t, driver: &testhouse.Deliveries{}, bank: &bank{
		orders: map[string]channel.OrderState{}, before: map[string]func(){}, after: map[string]func(){},
		refuse: map[string]error{}, fail: map[string]error{},
	}}
	b.House = testhouse.New(t, b.driver)
	box, err := sealed.New(b.MasterKey)
	require.NoError(t, err)
	b.Accounts = tenant.NewAccounts(b.Engine, channel.NewSet(b.bank), box)
	b.Orders = payment.NewOrders(b.API, b.Accounts.Asks)
	b.Entry = payment.NewEntry(b.Engine, b.Accounts, b.driver, b.Log, payment.DefaultPlan, b.Clock.Now, b.Matters...)
	core, told := observer.New(zap.InfoLevel)
	b.told = told
	b.Acquiring = acquiring.New(acquiring.Config{
		Pool: b.Engine, Accounts: b.Accounts, Entry: b.Entry, Books: b.Books, Driver: b.driver, Log: zap.New(core), Now: b.Clock.Now,
	})
	config, err := json.Marshal(standard.Config{Secrets: []string{testhouse.NewSecret()}})
	require.NoError(t, err)
	require.NoError(t, b.Accounts.Add(t.Context(), b.Tenant, "bank", "bank-"+b.Tenant, config))
	b.acct, err = b.Accounts.Find(t.Context(), "bank", "bank-"+b.Tenant)
	require.NoError(t, err)
	return b
}

// order makes an order that is to be paid through the bank.
func (b *branch) order(number string) payment.Payment {
	b.t.Helper()
	r := testhouse.Order(number, 9900)
	r.Channel, r.Account = "bank", b.acct.Name
	return b.Create(b.t, r)
}

func (b *branch) read(number string) payment.Payment {
	b.t.Helper()
	p, err := b.Orders.Get(b.t.Context(), b.Tenant, number)
	require.NoError(b.t, err)
	return p
}

var errAway = errors.New("no answer came")
