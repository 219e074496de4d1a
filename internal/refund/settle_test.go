package refund_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/receivable"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/tenant"
)

func TestAnOperatorSettlesWhatIsOwedOnce(t *testing.T) {
	t.Parallel()
	for _, how := range receivable.Ways() {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			require.NoError(t, tenant.SetPolicy(t.Context(), s.Engine, s.Tenant, tenant.Policy{RefundShortfall: tenant.AllowReceivable}))
			s.paid(t, "o", 100)
			s.spend(t, 70)
			s.begin(t, "o", "r", 60)
			require.Equal(t, refund.Succeeded, s.advance(t, "r"))
			settle := func() error {
				_, err := refund.Settle(t.Context(), s.Engine, s.Tenant, "r", how, "as agreed", s.Clock.Now())
				return err
			}
			if how == receivable.Balance {
				require.ErrorIs(t, settle(), ledger.ErrInsufficient)
				s.paid(t, "o2", 100)
			}
			require.NoError(t, settle())
			require.NoError(t, settle(), "said again")
			require.Zero(t, s.Balance(t, "receivable"))
			require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM journals WHERE kind = 'receivable_settled'"))
			require.Equal(t, 1, s.Count(t, "SELECT count(*) FROM audit_log WHERE action = 'receivable_settled'"))
			s.RequireInvariants(t)
		})
	}
	s := newStory(t)
	s.paid(t, "o", 100)
	s.begin(t, "o", "r", 60)
	_, err := refund.Settle(t.Context(), s.Engine, s.Tenant, "r", receivable.Outside, "no", s.Clock.Now())
	require.ErrorIs(t, err, receivable.ErrNothing)
}
