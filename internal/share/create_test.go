package share_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
)

func legAmounts(sh share.Share) map[string]int64 {
	got := map[string]int64{}
	for _, l := range sh.Legs {
		got[l.Account] = l.Amount
	}
	return got
}

func TestASharingIsSetAsideAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 645, "")
	sh := s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("b", 70, "a", 30)})
	require.Equal(t, share.Pending, sh.State)
	require.Equal(t, map[string]int64{"a": 194, "b": 451}, legAmounts(sh))
	require.Len(t, s.driver.TakeShares(), 1, "handed to its flow")
	require.Empty(t, s.bank.called(), "the intent is committed before the channel hears of it")
	s.requireBooks(t, 645, 0, 645)
}

func TestRatiosAreOfWhatIsLeftAfterRefunds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		amount int64
		list   []share.Receiver
		want   map[string]int64
		states map[string]share.LegState
	}{
		"100 at three thirds": {100, ratios("c", 1, "a", 1, "b", 1), map[string]int64{"a": 34, "b": 33, "c": 33}, nil},
		"1 over three": {1, ratios("b", 1, "c", 1, "a", 1), map[string]int64{"a": 1, "b": 0, "c": 0},
			map[string]share.LegState{"a": share.LegPending, "b": share.LegEmpty, "c": share.LegEmpty}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharer(t, c.amount, "")
			require.Equal(t, c.want, legAmounts(s.share(t, share.Request{OutOrderNo: "s", Receivers: c.list})))
			if c.states != nil {
				_, states := s.states(t, "s")
				require.Equal(t, c.states, states)
			}
			s.call(t, "s")
			for number, sent := range s.bank.there {
				for _, r := range sent.Receivers {
					require.Positive(t, r.Amount, "nobody is sent nothing (%s)", number)
				}
			}
			s.RequireInvariants(t)
		})
	}
}

func TestARepeatIsTheOriginalAndAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 645, "")
	first := s.share(t, share.Request{OutOrderNo: "s", Receivers: ratios("a", 30, "b", 70)})
	again, created, err := s.shares.Create(t.Context(), s.request(share.Request{OutOrderNo: "s", Receivers: ratios("b", 70, "a", 30)}))
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.ID, again.ID, "the order of the receivers is no difference")
	s.pay(t, "p", 645, "")
	for name, other := range map[string]share.Request{
		"another ratio":      {Receivers: ratios("a", 31, "b", 70)},
		"another receiver":   {Receivers: ratios("a", 30, "c", 70)},
		"one receiver less":  {Receivers: ratios("a", 30), MerchantRatio: new(int64)},
		"the merchant keeps": {Receivers: ratios("a", 30, "b", 70), MerchantRatio: new(int64)},
		"amounts":            {Receivers: amounts("a", 194, "b", 451)},
		"finish":             {Receivers: ratios("a", 30, "b", 70), Finish: true},
		"another payment":    {OutTradeNo: "p", Receivers: ratios("a", 30, "b", 70)},
	} {
		other.OutOrderNo = "s"
		_, _, err := s.shares.Create(t.Context(), s.request(other))
		require.ErrorIs(t, err, share.ErrNumberReused, name)
	}
	require.Empty(t, s.bank.called(), "nothing was sent")
	s.requireBooks(t, 645, 0, 645)
}

func TestFiftyAtOnceUnderOneNumberAreOneSharing(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	var mu sync.Mutex
	created := 0
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			_, mine, err := s.shares.Create(t.Context(), s.request(share.Request{OutOrderNo: "s", Receivers: amounts("a", 600)}))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if mine {
				created++
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, created)
	s.requireBooks(t, 600, 0, 600)
}

func TestSharesAtOnceNeverPassWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.pay(t, "other", 5000, "") // the merchant has more, but not of this payment
	var mu sync.Mutex
	made := 0
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, _, err := s.shares.Create(t.Context(), s.request(share.Request{OutOrderNo: fmt.Sprint("s", i), Receivers: amounts("a", 300)}))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !isAny(err, share.ErrExceedsLeft) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 3, made)
	s.requireBooks(t, 900, 0, 900)
}

func TestWhatCannotBeShared(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.Create(t, order("unpaid", 1000))
	many := make([]any, 0, 102)
	for i := range share.MaxReceivers + 1 {
		many = append(many, fmt.Sprintf("r%02d", i), 1)
	}
	both := amounts("a", 1)
	both[0].Ratio = both[0].Amount
	for name, c := range map[string]struct {
		r    share.Request
		want error
	}{
		"no such payment":                     {share.Request{OutTradeNo: "nobody", Receivers: amounts("a", 1)}, payment.ErrNotFound},
		"not paid":                            {share.Request{OutTradeNo: "unpaid", Receivers: amounts("a", 1)}, share.ErrNotPaid},
		"more than was paid":                  {share.Request{Receivers: amounts("a", 1001)}, share.ErrExceedsLeft},
		"more, over two":                      {share.Request{Receivers: amounts("a", 999, "b", 2)}, share.ErrExceedsLeft},
		"no receivers and no plan":            {share.Request{}, share.ErrNoPlan},
		"an empty list":                       {share.Request{Receivers: []share.Receiver{}}, share.ErrInvalid},
		"51 receivers":                        {share.Request{Receivers: amounts(many...)}, share.ErrInvalid},
		"a receiver twice":                    {share.Request{Receivers: amounts("a", 1, "a", 2)}, share.ErrInvalid},
		"an amount of 0":                      {share.Request{Receivers: amounts("a", 0)}, share.ErrInvalid},
		"an amount below 0":                   {share.Request{Receivers: amounts("a", -1)}, share.ErrInvalid},
		"amounts and ratios":                  {share.Request{Receivers: slices.Concat(amounts("a", 1), ratios("b", 1))}, share.ErrInvalid},
		"both at once":                        {share.Request{Receivers: both}, share.ErrInvalid},
		"neither":                             {share.Request{Receivers: []share.Receiver{{Account: "a"}}}, share.ErrInvalid},
		"one ratio alone":                     {share.Request{Receivers: ratios("a", 30)}, share.ErrInvalid},
		"no account":                          {share.Request{Receivers: amounts("", 1)}, share.ErrInvalid},
		"the merchant's ratio without ratios": {share.Request{Receivers: amounts("a", 1), MerchantRatio: new(int64)}, share.ErrInvalid},
	} {
		c.r.OutOrderNo = "s"
		_, _, err := s.shares.Create(t.Context(), s.request(c.r))
		require.ErrorIs(t, err, c.want, name)
	}
	fifty := s.share(t, share.Request{OutOrderNo: "fifty", Receivers: amounts(many[2:]...)})
	require.Len(t, fifty.Legs, 50)
	s.requireBooks(t, 50, 0, 50)
	require.Empty(t, s.bank.called())
}

func TestMoneyThatTheMerchantHasSpentCannotBeShared(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.move(t, "merchant", "bank", 300)
	s.refused(t, ledger.ErrInsufficient, share.Request{OutOrderNo: "s", Receivers: amounts("a", 701)})
	require.Zero(t, s.Count(t, "SELECT count(*) FROM shares"))
	s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 700)})
	s.requireBooks(t, 700, 0, 700)
}

func TestTheFrozenPlanDecides(t *testing.T) {
	t.Parallel()
	const plan = `{"receivers":[{"account":"a","ratio":10,"type":"MERCHANT_ID","name":"A"},{"account":"b","ratio":20}],"merchant_ratio":70}`
	s := newSharer(t, 1000, plan)
	seventy := int64(70)
	for name, r := range map[string]share.Request{
		"other ratios":                 {Receivers: ratios("a", 20, "b", 10), MerchantRatio: &seventy},
		"another part of the merchant": {Receivers: ratios("a", 10, "b", 20)},
		"another receiver":             {Receivers: ratios("a", 10, "c", 20), MerchantRatio: &seventy},
		"an amount above its part":     {Receivers: amounts("a", 101)},
		"an amount for somebody else":  {Receivers: amounts("c", 1)},
		"one within, one above":        {Receivers: amounts("a", 100, "b", 201)},
	} {
		r.OutOrderNo = "s"
		_, _, err := s.shares.Create(t.Context(), s.request(r))
		require.ErrorIs(t, err, share.ErrPlanDiffers, name)
	}
	require.Equal(t, map[string]int64{"b": 50}, legAmounts(s.share(t, share.Request{OutOrderNo: "early", Receivers: amounts("b", 50)})), "a part of its part")
	sh := s.share(t, share.Request{OutOrderNo: "s"})
	require.Equal(t, map[string]int64{"a": 100, "b": 150}, legAmounts(sh), "the rest of the parts")
	require.Equal(t, "MERCHANT_ID", sh.Legs[0].Type)
	require.Equal(t, "A", sh.Legs[0].Name)
	s.refused(t, share.ErrNothing, share.Request{OutOrderNo: "again"})
	s.refused(t, share.ErrNothing, share.Request{OutOrderNo: "again", Receivers: ratios("b", 20, "a", 10), MerchantRatio: &seventy})
	s.requireBooks(t, 300, 0, 300)
}

func TestTheFrozenRatiosNamedAgainAreTaken(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, `{"receivers":[{"account":"a","ratio":1},{"account":"b","ratio":3}]}`)
	r := share.Request{OutOrderNo: "s", Receivers: ratios("b", 3, "a", 1)}
	r.Receivers[0].Description = "for the book"
	sh := s.share(t, r)
	require.Equal(t, map[string]int64{"a": 250, "b": 750}, legAmounts(sh))
	require.Equal(t, "for the book", sh.Legs[1].Description)
}

func TestListsNarrowAndPage(t *testing.T) {
	t.Parallel()
	s := newSharer(t, 1000, "")
	s.pay(t, "p", 1000, "")
	for i := range 5 {
		s.share(t, share.Request{OutOrderNo: fmt.Sprint("o", i), Receivers: amounts("a", 1)})
		s.share(t, share.Request{OutTradeNo: "p", OutOrderNo: fmt.Sprint("p", i), Receivers: amounts("a", 1)})
	}
	numbers := func(f share.Filter) (list []string) {
		found, err := share.List(t.Context(), s.Engine, s.Tenant, f)
		require.NoError(t, err)
		for _, sh := range found {
			require.Len(t, sh.Legs, 1)
			list = append(list, sh.OutOrderNo)
		}
		return list
	}
	require.Equal(t, []string{"o4", "o3", "o2", "o1", "o0"}, numbers(share.Filter{OutTradeNo: "o", Limit: 10}))
	require.Equal(t, []string{"p4", "o4", "p3"}, numbers(share.Filter{Limit: 3}))
	require.Equal(t, []string{"p1", "p0"}, numbers(share.Filter{OutTradeNo: "p", Before: s.get(t, "p2").ID, Limit: 3}))
	require.Empty(t, numbers(share.Filter{State: share.Succeeded, Limit: 3}))
	_, err := share.Find(t.Context(), s.Engine, "somebody-else", "o1")
	require.ErrorIs(t, err, share.ErrNotFound)
}
