package stripe_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/stripe"
)

// at sets the simulator's clock, which is the clock of what moves the balance.
func (s *shop) at(moment time.Time) { s.sim.Clock(func() time.Time { return moment }) }

// rows reads a bill as a program would: by the names of its columns.
func rows(t *testing.T, bill io.ReadCloser) []map[string]string {
	t.Helper()
	defer func() { require.NoError(t, bill.Close()) }()
	all, err := csv.NewReader(bill).ReadAll()
	require.NoError(t, err)
	require.Equal(t, stripe.BillColumns, all[0])
	var list []map[string]string
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, cell := range cells {
			if cell != "" {
				row[all[0][i]] = cell
			}
		}
		list = append(list, row)
	}
	return list
}

func TestTheBillOfADay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	day := channel.Date{Year: 2026, Month: time.March, Day: 1}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s.at(noon.Add(-13 * time.Hour)) // the day before
	s.sell(t, order("order-0"))
	s.at(noon)
	_, id := s.sell(t, order("order-1"))
	refund, err := s.Refund(t.Context(), refundFor(id, "refund-1", 400))
	require.NoError(t, err)
	share, err := s.Share(t.Context(), shareOf(id, "share-1", channel.ShareReceiver{Account: anna, Amount: 300}))
	require.NoError(t, err)
	_, err = s.ReturnShare(t.Context(), channel.ShareReturn{OutReturnNo: "return-1", OutOrderNo: "share-1", ShareID: share.ShareID, Account: anna, Amount: 300, Currency: "USD"})
	require.NoError(t, err)
	yen := order("order-2")
	yen.Amount, yen.Currency = 500, "JPY"
	s.sell(t, yen)
	s.at(noon.Add(12 * time.Hour)) // the first second of the next day
	s.sell(t, order("order-3"))

	bill, err := s.Bill(t.Context(), day)
	require.NoError(t, err)
	list := rows(t, bill)
	require.Len(t, list, 5, "the day, whole and nothing else")
	// Newest first; what differs from run to run is left out.
	for i, want := range []map[string]string{
		{"reporting_category": "charge", "currency": "jpy", "gross": "500", "fee": "45", "net": "455", "payment_metadata[out_trade_no]": "order-2", "customer_facing_amount": "500", "customer_facing_currency": "jpy"},
		{"reporting_category": "transfer_reversal", "currency": "usd", "gross": "3.00", "fee": "0.00", "net": "3.00"},
		{"reporting_category": "transfer", "currency": "usd", "gross": "-3.00", "fee": "0.00", "net": "-3.00", "payment_intent_id": id, "payment_metadata[out_trade_no]": "order-1", "transfer_metadata[out_order_no]": "share-1"},
		{"reporting_category": "refund", "currency": "usd", "gross": "-4.00", "fee": "0.00", "net": "-4.00", "payment_intent_id": id, "refund_id": refund.RefundID, "payment_metadata[out_trade_no]": "order-1", "refund_metadata[out_refund_no]": "refund-1", "customer_facing_amount": "-4.00", "customer_facing_currency": "usd"},
		{"reporting_category": "charge", "currency": "usd", "gross": "10.00", "fee": "0.59", "net": "9.41", "payment_intent_id": id, "payment_metadata[out_trade_no]": "order-1", "customer_facing_amount": "10.00", "customer_facing_currency": "usd"},
	} {
		require.Subset(t, list[i], want, "row %d", i)
		require.Equal(t, "2026-03-01 12:00:00", list[i]["created_utc"])
		require.Equal(t, "2026-03-03 12:00:00", list[i]["available_on_utc"])
		require.NotEmpty(t, list[i]["balance_transaction_id"])
		require.NotEmpty(t, list[i]["source_id"])
	}
	require.Equal(t, list[4]["source_id"], list[4]["charge_id"])
	require.Equal(t, list[4]["source_id"], list[3]["charge_id"], "a refund names the charge that it is of")
	require.Equal(t, list[2]["source_id"], list[2]["transfer_id"])
}

func TestABillOfAnotherCurrencyThanThePayers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s.sim.Quirk(simulated.Quirks{SettleIn: "eur"})
	s.sell(t, order("order-1"))
	bill, err := s.Bill(t.Context(), channel.Date{Year: 2026, Month: time.March, Day: 1})
	require.NoError(t, err)
	require.Subset(t, rows(t, bill)[0], map[string]string{"currency": "eur", "gross": "10.00", "customer_facing_amount": "10.00", "customer_facing_currency": "usd"})
}

func TestABillOfManyPages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.at(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s.sim.Endpoint("")
	const orders = 205
	var seller channel.Acquirer
	for i := range orders {
		if i%25 == 0 {
			seller = s.again(t) // each has its own rate of calls
		}
		no := fmt.Sprintf("order-%d", i)
		_, err := seller.Prepay(t.Context(), order(no))
		require.NoError(t, err)
		require.NoError(t, s.sim.Pay(no))
	}
	day := channel.Date{Year: 2026, Month: time.March, Day: 1}
	bill, err := s.Bill(t.Context(), day)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, row := range rows(t, bill) {
		seen[row["payment_metadata[out_trade_no]"]] = true
	}
	require.Len(t, seen, orders)
	require.Equal(t, 3, s.calls("bill"))

	// A page that fails in the middle is an error, never the end of the file.
	bill, err = s.Bill(t.Context(), day)
	require.NoError(t, err)
	s.misbehave(simulator.Faults{Refuse: 1, Only: "bill"})
	part, err := io.ReadAll(bill)
	require.ErrorContains(t, err, "500")
	require.Less(t, strings.Count(string(part), "\n"), orders)
	_, again := bill.Read(make([]byte, 10))
	require.Equal(t, err, again, "and it stays one")
	require.NoError(t, bill.Close())

	bill, err = s.Bill(t.Context(), day)
	require.NoError(t, err)
	require.NoError(t, bill.Close())
	_, err = bill.Read(make([]byte, 10))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}

func TestNoBillAndNotYet(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, err := s.Bill(t.Context(), channel.Date{Year: 2026, Month: time.January, Day: 2})
	require.ErrorIs(t, err, channel.ErrNoBill)
	now := time.Now().UTC()
	for _, day := range []time.Time{now, now.AddDate(0, 0, 1)} {
		_, err = s.Bill(t.Context(), channel.Date{Year: day.Year(), Month: day.Month(), Day: day.Day()})
		require.ErrorIs(t, err, channel.ErrBillNotReady)
	}
	require.Equal(t, 1, s.calls("bill"), "a day that is not over is not asked for")
}
