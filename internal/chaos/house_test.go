package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
)

// inline is a driver that does at once, in the caller's goroutine, what the flows do.
type inline struct {
	*testhouse.Deliveries
	h *testhouse.House
}

func (e *inline) Deliver(ctx context.Context, d payment.Delivery) error {
	return e.apply(context.WithoutCancel(ctx), d.EventID)
}

// apply books an event, and asks its channel about it where that comes first.
func (e *inline) apply(ctx context.Context, id int64) error {
	applied, err := e.h.Books.Apply(ctx, id)
	if err != nil || applied.Ask == "" {
		return err
	}
	answers, err := e.h.Refunds.AskAbout(ctx, id)
	if err != nil {
		return err
	}
	for _, answer := range append(answers, id) {
		if _, err := e.h.Books.Apply(ctx, answer); err != nil {
			return err
		}
	}
	return nil
}

func (e *inline) StartRefund(ctx context.Context, r refund.Ref, _ bool) error {
	ctx = context.WithoutCancel(ctx)
	for {
		p, err := e.h.Refunds.Advance(ctx, r.RefundID, time.Second)
		if err != nil {
			return err
		}
		for _, id := range p.Events {
			if err := e.apply(ctx, id); err != nil {
				return err
			}
		}
		if p, err = e.h.Refunds.Look(ctx, r.RefundID); err != nil || p.State.Ended() {
			return err
		}
	}
}

func (e *inline) StartTransfer(ctx context.Context, t transfer.Transfer, _ bool) (run string, err error) {
	return "", e.carryOut(ctx, t)
}

func (e *inline) carryOut(ctx context.Context, t transfer.Transfer) error {
	ctx = context.WithoutCancel(ctx)
	p, err := e.h.Transfers.Try(ctx, t.ID)
	if err != nil {
		return err
	}
	failure := p.Failure
	for _, leg := range p.External {
		if err := e.insist(ctx, t.ID, leg, "try"); err != nil && failure == "" {
			failure = transfer.ParticipantRefused
		}
	}
	if p, err = e.h.Transfers.Decide(ctx, t.ID, failure); err != nil {
		return err
	}
	phase := "confirm"
	if p.State == transfer.Cancelling {
		phase = "cancel"
	}
	if _, err = e.h.Transfers.End(ctx, t.ID, false); err != nil {
		return err
	}
	for _, leg := range p.External {
		if err := e.insist(ctx, t.ID, leg, phase); err != nil {
			return err
		}
	}
	_, err = e.h.Transfers.End(ctx, t.ID, true)
	return err
}

func (e *inline) StartInquiry(ctx context.Context, o acquiring.Ref) error {
	_, err := e.h.Acquiring.Inquire(context.WithoutCancel(ctx), o.PaymentID)
	return err
}

func (e *inline) StartShare(ctx context.Context, s share.Share, _ bool) error {
	for {
		if p, err := e.h.Shares.Call(context.WithoutCancel(ctx), s.ID); err != nil || p.Ended {
			return err
		}
	}
}

// insist calls a participant until it has a definite answer.
func (e *inline) insist(ctx context.Context, id int64, leg int, phase string) error {
	for {
		err := e.h.Transfers.Call(ctx, id, leg, phase)
		var refused *transfer.Refused
		if err == nil || errors.As(err, &refused) {
			return err
		}
	}
}

// play plays scenes so many times each, with nothing struck, and gives the house and what was played.
func play(t *testing.T, times int, names ...string) (*testhouse.House, *load) {
	t.Helper()
	driver := &inline{Deliveries: &testhouse.Deliveries{}}
	srv := httptest.NewUnstartedServer(nil)
	h := testhouse.New(t, driver)
	h.PublicURL = "http://" + srv.Listener.Addr().String()
	h = testhouse.Reopen(t, h, driver)
	driver.h = h
	group := ledger.NewGroup(h.Engine)
	t.Cleanup(group.Stop)
	srv.Config.Handler = api.Handler(api.Config{
		Orders: h.Orders, Entry: h.Entry, Books: h.Books, Accounts: h.Accounts, Acquiring: h.Acquiring, Shares: h.Shares, Transfers: h.Transfers, Refunds: h.Refunds,
		Group: group, API: h.API, Engine: h.Engine, Log: h.Log,
		AwaitTransfer: func(context.Context, transfer.Transfer) error { return nil },
		DatabaseReady: func(context.Context) error { return nil },
		EngineReady:   func(context.Context) error { return nil },
		WorkflowURL:   func(id string) string { return id },
		Prepay: func(ctx context.Context, o acquiring.Ref) error {
			_, err := h.Acquiring.Prepay(ctx, o.PaymentID)
			return err
		},
	})
	srv.Start()
	t.Cleanup(srv.Close)

	record := NewRecord()
	furniture := &house{engine: h.Engine, acquirers: newAcquirers()}
	furniture.acquirers.balance(func() []string { return []string{srv.URL} })
	require.NoError(t, furniture.furnish(t.Context(), record, h.MasterKey))
	t.Cleanup(furniture.participant.Close)
	t.Cleanup(furniture.acquirers.close)
	l := &load{seed: 1, record: record, caller: newCaller([]string{srv.URL}), sign: signStandard, until: time.Now()}
	t.Cleanup(l.caller.close)
	require.NoError(t, l.open(t.Context()))
	number := uint64(0)
	for _, s := range scenes() {
		for range times {
			if len(names) == 0 || slices.Contains(names, s.name) {
				number++
				s.play(t.Context(), l.player(rand.New(rand.NewPCG(l.seed, number)), s, number))
			}
		}
	}
	for _, sim := range furniture.acquirers.list {
		sim.Core().Wait() // all notices are answered
	}
	h.Clock.Pass(time.Minute) // what expires has expired
	_, err := h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	_, err = h.Acquiring.Redrive(t.Context())
	require.NoError(t, err)
	return h, l
}
