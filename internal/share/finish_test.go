package share_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/paylatch/paylatch/internal/alert"
	"github.com/paylatch/paylatch/internal/share"
)

func TestTheSharingOfAPaymentIsFinishedOnce(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	var mu sync.Mutex
	var finished []string
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			number := fmt.Sprint("f", i)
			_, _, err := s.shares.Create(t.Context(), s.request(share.Request{OutOrderNo: number, Finish: true}))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				finished = append(finished, number)
			case !errors.Is(err, share.ErrFinished):
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, finished, 1)
	require.True(t, s.call(t, finished[0]).Ended)
	require.Equal(t, []string{"finish " + finished[0]}, s.bank.called())
	state, _ := s.states(t, finished[0])
	require.Equal(t, share.Succeeded, state)
	s.refused(t, share.ErrFinished, share.Request{OutOrderNo: "late", Receivers: amounts("a", 1)})
	s.requireBooks(t, 0, 0, 0)
}

func TestTwoParallelFinishesUnderOneNumberAreOne(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	var mu sync.Mutex
	created := 0
	threeMillisecondsApart(func() {
		_, mine, err := s.shares.Create(t.Context(), s.request(share.Request{OutOrderNo: "f", Receivers: amounts("a", 100), Finish: true}))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		if mine {
			created++
		}
	})
	require.Equal(t, 1, created)
	s.requireBooks(t, 100, 0, 100)
}

func TestARefusedFinishHasFinishedNothing(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.bank.refuse["finish"] = errRefused
	s.share(t, share.Request{OutOrderNo: "f", Finish: true})
	require.True(t, s.call(t, "f").Ended)
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 100)})
	s.bank.refuse = nil
	s.share(t, share.Request{OutOrderNo: "g", Finish: true})
	_, err := s.shares.Retry(t.Context(), s.Tenant, "f")
	require.ErrorIs(t, err, share.ErrFinished)
	s.RequireInvariants(t)
}

func TestAFinishWithoutAnAnswerIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "f", Receivers: []share.Receiver{}, Finish: true})
	s.bank.fail["finish"] = errNoAnswer
	s.callInVain(t, "f")
	require.True(t, s.call(t, "f").Ended)
	require.Equal(t, []string{"finish f", "query f"}, s.bank.called())
	s.RequireInvariants(t)
}

func TestAPlanCanFinishAsItShares(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, `{"receivers":[{"account":"a","ratio":30}],"merchant_ratio":70}`)
	sh := s.share(t, share.Request{OutOrderNo: "s", Finish: true})
	require.Equal(t, int64(300), sh.Amount)
	require.True(t, s.call(t, "s").Ended)
	require.True(t, s.bank.there["s"].Finish)
	s.refused(t, share.ErrFinished, share.Request{OutOrderNo: "late", Receivers: []share.Receiver{}, Finish: true})
	s.requireBooks(t, 0, 300, 0)
}

func TestTheRedriveStartsWhatRestsAndTellsOfWhatIsStuck(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	require.Len(t, s.driver.TakeShares(), 1)
	moved, err := s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, moved, "it is not due")
	s.Clock.Pass(6 * time.Minute)
	moved, err = s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	require.Len(t, s.driver.TakeShares(), 1)

	// The engine is away: it comes again soon.
	s.driver.Err = errNoAnswer
	s.share(t, share.Request{OutOrderNo: "s2", Receivers: amounts("a", 300)})
	s.driver.Err = nil
	s.Clock.Pass(6 * time.Second)
	moved, err = s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	require.Equal(t, "s2", s.driver.TakeShares()[0].OutOrderNo)

	// Away while several are due: those that were not even tried wait no longer than the one that was.
	s.Clock.Pass(6 * time.Minute)
	s.driver.Err = errNoAnswer
	moved, err = s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, moved)
	s.driver.Err = nil
	s.Clock.Pass(6 * time.Second)
	moved, err = s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, moved)
}

// Whoever is told every five minutes does not listen.
func TestWhatIsStuckIsToldOfOncePerStateAndDay(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	core, told := observer.New(zap.ErrorLevel)
	shares := share.NewService(s.Engine, s.Accounts, s.Entry, s.driver, zap.New(core), s.Clock.Now)
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 300)})
	pass := func(d time.Duration) {
		t.Helper()
		for end := s.Clock.Now().Add(d); s.Clock.Now().Before(end); {
			s.Clock.Pass(min(d, 6*time.Minute))
			_, err := shares.Redrive(t.Context())
			require.NoError(t, err)
		}
	}
	pass(time.Hour)
	require.Equal(t, 1, told.FilterField(zap.String("alert", alert.ShareStuck)).Len())
	s.bank.fail["share"] = errNoAnswer
	s.callInVain(t, "s")
	pass(time.Hour)
	require.Equal(t, 2, told.Len(), "its state is another one")
	s.Clock.Pass(23 * time.Hour)
	pass(time.Hour)
	require.Equal(t, 3, told.Len(), "and again every day")
}

func TestTheRedriveFollowsWhatIsCollected(t *testing.T) {
	t.Parallel()
	s := sharedSale(t)
	s.receivable(t)
	s.pay(t, "other", 1000, "")
	s.refund(t, "r", 300)
	s.advance(t, "r")
	s.driver.Err = errNoAnswer // the engine is away
	_, err := s.shares.Collect(t.Context(), s.Tenant, "s", "")
	require.NoError(t, err)
	s.driver.Err = nil
	s.driver.TakeShares()
	s.Clock.Pass(6 * time.Second)
	moved, err := s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	require.Equal(t, "s", s.driver.TakeShares()[0].OutOrderNo)
	_, err = s.shares.AskOwed(t.Context(), s.get(t, "s").ID)
	require.NoError(t, err)
	s.Clock.Pass(6 * time.Minute)
	moved, err = s.shares.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, moved, "all have answered")
}
