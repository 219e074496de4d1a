package transfer_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
)

// Transfers cross between the merchant and b while refunds hold, pay out and give back the merchant's money.
func TestCrossedTransfersAndRefundsOfTheSameAccountsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.Create(t, testhouse.Order("o", 1000))
	s.Report(t, testhouse.Paid(t, "tx", "o", 1000))
	s.driver.Book(t, s.Books)
	require.Equal(t, 1000, s.Balance(t, "merchant"))

	const transfers, refunds = 200, 60
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range transfers {
		group.Go(func() error {
			r := s.pay(fmt.Sprint("k", i), 1)
			r.Legs[0].Account, r.Legs[1].Account = "merchant", "b"
			if i%2 == 1 {
				r.Legs[0].Account, r.Legs[1].Account = "b", "merchant"
			}
			r.Mode = []transfer.Mode{transfer.Direct, transfer.TCC}[i/2%2]
			got, _, err := s.Transfers.Create(ctx, r)
			if err != nil || got.Mode == transfer.Direct {
				return err
			}
			if _, err := s.Transfers.Try(ctx, got.ID); err != nil {
				return err
			}
			_, err = s.Transfers.Settle(ctx, got.ID, "")
			return err
		})
		if i >= refunds {
			continue
		}
		group.Go(func() error {
			number := fmt.Sprint("r", i)
			if _, _, err := s.Refunds.Create(ctx, refund.Request{TenantID: s.Tenant, OutTradeNo: "o", OutRefundNo: number, Amount: 5}); err != nil {
				return err
			}
			kind := "refund.succeeded"
			if i%3 == 0 {
				kind = "refund.failed"
			}
			body, err := json.Marshal(standard.Message{Type: kind, Timestamp: time.Now(), Data: standard.Data{
				RefundID: "id-" + number, OutRefundNo: number, TransactionID: "tx", Amount: 5, Currency: "CNY",
			}})
			if err != nil {
				return err
			}
			reported, err := s.Entry.Report(ctx, s.Account, body, time.Now())
			if err != nil {
				return err
			}
			_, err = s.Books.Apply(ctx, reported[0].EventID)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Zero(t, s.Count(t, "SELECT count(*) FROM transfers WHERE ended_at IS NULL"))
	require.Equal(t, refunds/3, s.Count(t, "SELECT count(*) FROM refunds WHERE state = 'FAILED'"))
	require.Equal(t, refunds*2/3, s.Count(t, "SELECT count(*) FROM refunds WHERE state = 'SUCCEEDED'"))
	require.Equal(t, 1000-5*refunds*2/3, s.Balance(t, "merchant"))
	require.Equal(t, 1000, s.Balance(t, "b"))
	require.Zero(t, s.Count(t, "SELECT sum(held) FROM ledger_accounts"))
	s.RequireInvariants(t)
}
