package share_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/receivable"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
)

func (s *sharer) requireSettledOnce(t *testing.T) {
	t.Helper()
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM journals WHERE tenant_id = $1 AND kind = 'receivable_settled'", s.Tenant))
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM settlements WHERE tenant_id = $1", s.Tenant))
	require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'receivable_settled'", s.Tenant))
	s.RequireInvariants(t)
}

func TestWhatAReceiverOwesIsSettledOnce(t *testing.T) {
	t.Parallel()
	for _, how := range receivable.Ways() {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			s := sharedSale(t)
			s.pay(t, "other", 1000, "")
			settle := func(account string) (int64, error) {
				return share.SettleReceiver(t.Context(), s.Engine, s.Tenant, "s", account, how, "as agreed", s.Clock.Now())
			}
			_, err := settle("a")
			require.ErrorIs(t, err, receivable.ErrNothing)
			_, err = settle("nobody")
			require.ErrorIs(t, err, share.ErrNotFound)
			s.bank.broke["a"] = "the account is empty"
			s.refund(t, "r", 645)
			require.Equal(t, refund.Succeeded, s.advance(t, "r"))

			// While the channel is asked its answer decides; it says no once more.
			_, err = s.shares.Collect(t.Context(), s.Tenant, "s", "a")
			require.NoError(t, err)
			_, err = settle("a")
			require.ErrorIs(t, err, share.ErrCollected)
			_, err = s.shares.AskOwed(t.Context(), s.get(t, "s").ID)
			require.NoError(t, err)

			settled, err := settle("a")
			require.NoError(t, err)
			require.Equal(t, int64(194), settled)
			settled, err = settle("a")
			require.NoError(t, err, "said again")
			require.Zero(t, settled)
			require.Equal(t, []string{"r a 194 CLEARED", "r b 451 RETURNED"}, s.returns(t))
			require.Zero(t, s.Balance(t, "receivable:a"))
			merchant := 1000 - 194
			if how == receivable.Balance {
				merchant = 1000
			} else {
				require.Equal(t, 194, s.Balance(t, "settled:"+string(how)))
			}
			require.Equal(t, merchant, s.Balance(t, "merchant"))
			_, err = s.shares.Collect(t.Context(), s.Tenant, "s", "a")
			require.ErrorIs(t, err, share.ErrNothingOwed, "what is settled is not asked for")
			s.requireSettledOnce(t)
		})
	}
}

func TestWhatTheMerchantOwesForALegIsSettledOnce(t *testing.T) {
	t.Parallel()
	for _, how := range receivable.Ways() {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			s := newSharer(t, 1000, "")
			s.bank.refuse["share"] = &channel.Rejection{Code: "BUSY", Detail: "so it said"}
			s.share(t, share.Request{OutOrderNo: "s", Receivers: amounts("a", 600)})
			s.call(t, "s")
			settle := func() (int64, error) {
				return share.SettleLeg(t.Context(), s.Engine, s.Tenant, "s", "a", how, "as agreed", s.Clock.Now())
			}
			_, err := settle()
			require.ErrorIs(t, err, receivable.ErrNothing)
			s.move(t, "merchant", "bank", 900)
			s.report(t, results(t, "x", "s", "a", 600, "SUCCEEDED"))
			s.book(t, payment.Shared)
			require.Equal(t, -500, s.Balance(t, "receivable"))
			if how == receivable.Balance {
				_, err := settle()
				require.ErrorIs(t, err, ledger.ErrInsufficient)
				s.pay(t, "other", 700, "")
			}
			settled, err := settle()
			require.NoError(t, err)
			require.Equal(t, int64(500), settled)
			settled, err = settle()
			require.NoError(t, err, "said again")
			require.Zero(t, settled)
			require.Zero(t, s.Balance(t, "receivable"))
			if how == receivable.Balance {
				require.Equal(t, 200, s.Balance(t, "merchant"))
			} else {
				require.Equal(t, -500, s.Balance(t, "settled:"+string(how)))
			}
			s.requireSettledOnce(t)
		})
	}
}
