package share_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// bank is an acquirer that does what a test tells it. It speaks as the standard channel does.
type bank struct {
	standard.Channel

	mu      sync.Mutex
	calls   []string // "share s1", "query s1", …
	there   map[string]*channel.Share
	closed  map[string]string // receivers who get nothing, and why
	pending bool              // results wait until settle
	fail    map[string]error  // by kind of call: done, and answered with this error
	refuse  map[string]error  // by kind of call: not done
	taken   map[string]channel.ReturnStanding
	broke   map[string]string // receivers who cannot give back, and why
	gave    map[string]int64  // what each receiver gave back
	refunds map[string]*channel.RefundStanding
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

// call notes a call and gives the error that it fails with; done is false where nothing is done either.
func (b *bank) call(kind, number string) (done bool, err error) {
	b.calls = append(b.calls, kind+" "+number)
	if err := b.refuse[kind]; err != nil {
		return false, err
	}
	return true, b.fail[kind]
}

func (b *bank) called() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func (a *bankAccount) Share(_ context.Context, s channel.Share) (channel.ShareStanding, error) {
	return a.carryOut("share", s)
}

func (a *bankAccount) FinishShare(_ context.Context, s channel.Share) (channel.ShareStanding, error) {
	return a.carryOut("finish", s)
}

func (a *bankAccount) carryOut(kind string, s channel.Share) (channel.ShareStanding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	done, err := a.call(kind, s.OutOrderNo)
	if done && a.there[s.OutOrderNo] == nil {
		a.there[s.OutOrderNo] = &s
	}
	if err != nil {
		return channel.ShareStanding{}, err
	}
	return a.standing(s.OutOrderNo), nil
}

func (a *bankAccount) QueryShare(_ context.Context, s channel.Share) (channel.ShareStanding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.call("query", s.OutOrderNo); err != nil {
		return channel.ShareStanding{}, err
	}
	if a.there[s.OutOrderNo] == nil {
		return channel.ShareStanding{}, nil
	}
	return a.standing(s.OutOrderNo), nil
}

func (a *bankAccount) ReturnShare(_ context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	done, err := a.call("return", r.OutReturnNo)
	if _, there := a.taken[r.OutReturnNo]; done && !there {
		standing := channel.ReturnStanding{State: channel.ReturnSucceeded, ReturnID: "bank-" + r.OutReturnNo}
		switch {
		case a.broke[r.Account] != "":
			standing.State, standing.Reason = channel.ReturnFailed, a.broke[r.Account]
		case a.pending:
			standing.State = channel.ReturnPending
		default:
			a.gave[r.Account] += r.Amount
		}
		a.taken[r.OutReturnNo] = standing
	}
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	return a.taken[r.OutReturnNo], nil
}

func (a *bankAccount) QueryReturn(_ context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.call("query_return", r.OutReturnNo); err != nil {
		return channel.ReturnStanding{}, err
	}
	standing, there := a.taken[r.OutReturnNo]
	if !there {
		return channel.ReturnStanding{State: channel.ReturnUnknown}, nil
	}
	if standing.State == channel.ReturnPending && !a.pending {
		standing.State = channel.ReturnSucceeded
		a.gave[r.Account] += r.Amount
		a.taken[r.OutReturnNo] = standing
	}
	return standing, nil
}

func (a *bankAccount) Refund(_ context.Context, r channel.Refund) (channel.RefundStanding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	done, err := a.call("refund", r.OutRefundNo)
	if done && a.refunds[r.OutRefundNo] == nil {
		a.refunds[r.OutRefundNo] = &channel.RefundStanding{
			State: channel.RefundSucceeded, RefundID: "bank-" + r.OutRefundNo, Body: refundBody("refund.succeeded", "bank-"+r.OutRefundNo, r),
		}
	}
	if err != nil {
		return channel.RefundStanding{}, err
	}
	return *a.refunds[r.OutRefundNo], nil
}

func (a *bankAccount) QueryRefund(_ context.Context, r channel.Refund) (channel.RefundStanding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.call("query_refund", r.OutRefundNo); err != nil {
		return channel.RefundStanding{}, err
	}
	if there := a.refunds[r.OutRefundNo]; there != nil {
		return *there, nil
	}
	return channel.RefundStanding{State: channel.RefundUnknown}, nil
}

func refundBody(kind, refundID string, r channel.Refund) []byte {
	body, err := json.Marshal(standard.Message{Type: kind, Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: standard.Data{
		TransactionID: r.TransactionID, OutTradeNo: r.OutTradeNo, RefundID: refundID, OutRefundNo: r.OutRefundNo, Amount: r.Amount, Currency: r.Currency,
	}})
	if err != nil {
		panic(err)
	}
	return body
}

func (b *bank) standing(number string) channel.ShareStanding {
	s := b.there[number]
	standing := channel.ShareStanding{Known: true, ShareID: "bank-" + number}
	data := standard.Data{TransactionID: s.TransactionID, ShareID: standing.ShareID, OutOrderNo: number, Currency: s.Currency}
	for _, r := range s.Receivers {
		leg := channel.ShareLeg{Account: r.Account, Amount: r.Amount, State: channel.LegPending}
		if why, is := b.closed[r.Account]; is {
			leg.State, leg.Reason = channel.LegClosed, why
		} else if !b.pending {
			leg.State = channel.LegSucceeded
		}
		standing.Legs = append(standing.Legs, leg)
		if leg.State != channel.LegPending {
			data.Receivers = append(data.Receivers, standard.Receiver{Account: r.Account, Amount: r.Amount, State: string(leg.State)})
		}
	}
	if len(data.Receivers) > 0 {
		body, err := json.Marshal(standard.Message{Type: "share.result", Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: data})
		if err != nil {
			panic(err)
		}
		standing.Body = body
	}
	return standing
}

var (
	errNoAnswer = errors.New("the connection broke")
	errRefused  = &channel.Rejection{Code: "NO", Detail: "not so"}
)

// sharer is a house with an account at the bank, one paid payment "o", and everything that shares it.
type sharer struct {
	*testhouse.House
	bank   *bank
	driver *testhouse.Deliveries
	acct   tenant.Account
	entry  *payment.Entry
	books  *payment.Books
	shares *share.Service
}

func newSharer(t *testing.T, amount int64, plan string) *sharer {
	t.Helper()
	s := &sharer{
		driver: &testhouse.Deliveries{},
		bank: &bank{there: map[string]*channel.Share{}, closed: map[string]string{}, fail: map[string]error{}, refuse: map[string]error{},
			taken: map[string]channel.ReturnStanding{}, broke: map[string]string{}, gave: map[string]int64{}, refunds: map[string]*channel.RefundStanding{}},
	}
	s.House = testhouse.New(t, s.driver)
	s.Channels = channel.NewSet(standard.Channel{}, s.bank)
	s.Open(t, s.driver)
	config, err := json.Marshal(standard.Config{Secrets: []string{s.Secret}})
	require.NoError(t, err)
	require.NoError(t, s.Accounts.Add(t.Context(), s.Tenant, "bank", "bank-"+s.Tenant, config))
	s.acct, err = s.Accounts.Find(t.Context(), "bank", "bank-"+s.Tenant)
	require.NoError(t, err)
	s.entry, s.books, s.shares = s.Entry, s.Books, s.Shares
	s.pay(t, "o", amount, plan)
	return s
}

// pay makes an order and has it paid at the bank.
func (s *sharer) pay(t *testing.T, order string, amount int64, plan string) {
	t.Helper()
	request := testhouse.Order(order, amount)
	if plan != "" {
		p, err := share.ParsePlan(json.RawMessage(plan))
		require.NoError(t, err)
		request.SharingPlan = p.JSON()
	}
	s.Create(t, request)
	_, err := s.entry.Report(t.Context(), s.acct, testhouse.Paid(t, "tx-"+order, order, amount), s.Clock.Now())
	require.NoError(t, err)
	s.book(t, payment.Credited)
}

// book books what was delivered, and says with what outcomes.
func (s *sharer) book(t *testing.T, want ...payment.Outcome) {
	t.Helper()
	require.ElementsMatch(t, want, s.driver.Book(t, s.books))
}

func (s *sharer) share(t *testing.T, r share.Request) share.Share {
	t.Helper()
	sh, created, err := s.shares.Create(t.Context(), s.request(r))
	require.NoError(t, err)
	require.True(t, created)
	return sh
}

func (s *sharer) request(r share.Request) share.Request {
	r.TenantID = s.Tenant
	if r.OutTradeNo == "" {
		r.OutTradeNo = "o"
	}
	return r
}

// refused asks for a sharing that must not be.
func (s *sharer) refused(t *testing.T, want error, r share.Request) {
	t.Helper()
	_, _, err := s.shares.Create(t.Context(), s.request(r))
	require.ErrorIs(t, err, want)
}

func (s *sharer) get(t *testing.T, number string) share.Share {
	t.Helper()
	sh, err := share.Find(t.Context(), s.Engine, s.Tenant, number)
	require.NoError(t, err)
	return sh
}

// states gives a sharing's state, and its legs' by receiver.
func (s *sharer) states(t *testing.T, number string) (share.State, map[string]share.LegState) {
	t.Helper()
	sh := s.get(t, number)
	legs := map[string]share.LegState{}
	for _, l := range sh.Legs {
		legs[l.Account] = l.State
	}
	return sh.State, legs
}

// requireBooks holds the payment "o" and the accounts to amounts.
func (s *sharer) requireBooks(t *testing.T, pending, shared, held int) {
	t.Helper()
	require.Equal(t, pending, s.Count(t, "SELECT shared_pending FROM payments WHERE out_trade_no = 'o'"), "pending of the payment")
	require.Equal(t, shared, s.Count(t, "SELECT shared_amount FROM payments WHERE out_trade_no = 'o'"), "shared of the payment")
	require.Equal(t, held, s.Count(t, "SELECT held FROM ledger_accounts WHERE tenant_id = $1 AND code = 'merchant'", s.Tenant), "held on merchant")
	s.RequireInvariants(t)
}

func ratios(list ...any) (receivers []share.Receiver) {
	for i := 0; i < len(list); i += 2 {
		ratio := int64(list[i+1].(int))
		receivers = append(receivers, share.Receiver{Account: list[i].(string), Ratio: &ratio})
	}
	return receivers
}

func amounts(list ...any) (receivers []share.Receiver) {
	for i := 0; i < len(list); i += 2 {
		amount := int64(list[i+1].(int))
		receivers = append(receivers, share.Receiver{Account: list[i].(string), Amount: &amount})
	}
	return receivers
}
