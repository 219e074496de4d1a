package stripe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
)

func TestAnOrderOnTheShopsOwnPage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o := order("order-1")
	prepaid, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	fields := data(t, prepaid)
	require.Equal(t, prepaid.Reference, fields["payment_intent"])
	require.Contains(t, fields["client_secret"], prepaid.Reference+"_secret_")
	require.Zero(t, s.calls("query"), "a young order is not looked for first")

	again, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.JSONEq(t, string(prepaid.Data), string(again.Data))
	o.Reference = prepaid.Reference
	again, err = s.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.JSONEq(t, string(prepaid.Data), string(again.Data))
	require.Len(t, s.sim.Orders(), 1)

	standing, err := s.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderOpen, standing.State)
	require.Empty(t, standing.Body)

	require.NoError(t, s.sim.Decline("order-1"))
	standing, err = s.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderOpen, standing.State, "a declined card may be followed by another")

	require.NoError(t, s.sim.Pay("order-1"))
	standing, err = s.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderPaid, standing.State)
	byQuery := s.said(t, standing.Body)[0]
	byCallback, times := s.told("stripe:" + o.Reference + ":PAY_SUCCESS")
	require.Equal(t, byCallback, byQuery)
	require.Equal(t, 2, times, "payment_intent.succeeded and charge.succeeded")
	_, times = s.told("stripe:" + o.Reference + ":PAY_FAILED")
	require.Equal(t, 1, times)
	events, err := channel.Read(s.account, standing.Body)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Nil(t, events[0].Fee, "no event of the payment tells it")
	require.Equal(t, channel.PayFee, events[1].Kind)
	require.Equal(t, int64(59), events[1].Amount, "2.9 % and 30")
	hint, _ := s.told("stripe:" + events[1].Subject + ":PAY_FEE_HINT")
	require.Equal(t, channel.Event{Kind: channel.PayFeeHint, Subject: events[1].Subject, TransactionID: o.Reference, OutTradeNo: "order-1"}, hint)
	told, err := s.account.(channel.FeeTeller).AskFee(t.Context(), o.Reference)
	require.NoError(t, err)
	answered, err := channel.Read(s.account, told)
	require.NoError(t, err)
	require.Equal(t, events, answered, "asked for upon the hint, it is the query's answer")

	_, err = s.Prepay(t.Context(), o)
	require.ErrorIs(t, err, channel.ErrPaid)
	require.False(t, channel.Definite(err), "a paid order is not one that was never announced")
}

func TestAnOrderOnStripesPage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o := order("order-1")
	o.Method = "checkout"
	_, err := s.Prepay(t.Context(), o)
	definite(t, err, "return_url_missing")

	o.ReturnURL = "https://shop.example/thanks"
	o.ExpiresAt = time.Now().Add(2 * time.Hour)
	prepaid, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	fields := data(t, prepaid)
	require.Equal(t, prepaid.Reference, fields["session"])
	require.Contains(t, fields["url"], "https://checkout.stripe.com/")
	o.Reference = prepaid.Reference
	again, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.JSONEq(t, string(prepaid.Data), string(again.Data))

	standing, err := s.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderOpen, standing.State)

	require.NoError(t, s.sim.Pay("order-1"))
	standing, err = s.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderPaid, standing.State)
	byQuery := s.said(t, standing.Body)[0]
	require.Equal(t, "order-1", byQuery.OutTradeNo)
	byCallback, times := s.told("stripe:" + byQuery.TransactionID + ":PAY_SUCCESS")
	require.Equal(t, byCallback, byQuery)
	require.Equal(t, 3, times, "three event types, one key")
	_, err = s.Prepay(t.Context(), o)
	require.ErrorIs(t, err, channel.ErrPaid)
	require.False(t, channel.Definite(err), "a paid order is not one that was never announced")
}

func TestASessionThatWouldEndTooSoonForStripeIsEndedByUs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, left := range map[string]time.Duration{"none": 0, "a-minute": time.Minute, "a-week": 7 * 24 * time.Hour, "half-a-day": 12 * time.Hour} {
		o := order(name)
		o.Method, o.ReturnURL = "checkout", "https://shop.example/thanks"
		if left != 0 {
			o.ExpiresAt = time.Now().Add(left)
		}
		_, err := s.Prepay(t.Context(), o)
		require.NoError(t, err, name)
	}
	// The time of expiry has come too near to be told: another parameter than the first call's. It is still the order's session.
	o := order("late")
	o.Method, o.ReturnURL, o.ExpiresAt = "checkout", "https://shop.example/thanks", time.Now().Add(40*time.Minute)
	first, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	o.ExpiresAt = time.Now().Add(20 * time.Minute)
	second, err := s.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.JSONEq(t, string(first.Data), string(second.Data))
}

func TestAMethodThatStripeDoesNotHave(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o := order("order-1")
	o.Method = "native"
	_, err := s.Prepay(t.Context(), o)
	require.ErrorIs(t, err, channel.ErrUnsupported)
	require.True(t, channel.Definite(err))
	require.Zero(t, s.calls(""))
}

func TestAPaymentThatTakesDays(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"card", "checkout"} {
		s := newShop(t)
		s.sim.Quirk(simulated.Quirks{Async: true})
		for _, paid := range []bool{true, false} {
			o := order(map[bool]string{true: "paid", false: "failed"}[paid])
			o.Method, o.ReturnURL = method, "https://shop.example/thanks"
			o = s.announce(t, o)
			require.NoError(t, s.sim.Pay(o.OutTradeNo))
			standing, err := s.Query(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, channel.OrderOpen, standing.State, "completed is not paid")
			unknown(t, s.Close(t.Context(), o), "while it is processed it is neither closed nor paid")

			require.NoError(t, s.sim.Settle(o.OutTradeNo, paid))
			standing, err = s.Query(t.Context(), o)
			require.NoError(t, err)
			switch {
			case paid:
				require.Equal(t, channel.OrderPaid, standing.State)
				require.ErrorIs(t, s.Close(t.Context(), o), channel.ErrPaid)
			case method == "checkout":
				require.Equal(t, channel.OrderClosed, standing.State, "the page is gone")
				require.NoError(t, s.Close(t.Context(), o))
			default:
				require.Equal(t, channel.OrderOpen, standing.State, "the payer may try again")
				require.NoError(t, s.Close(t.Context(), o))
			}
		}
	}
}

func TestClosing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"card", "checkout"} {
		s := newShop(t)
		o := order("order-1")
		o.Method, o.ReturnURL = method, "https://shop.example/thanks"
		unannounced := o
		require.NoError(t, s.Close(t.Context(), unannounced), "what Stripe does not know is closed")

		o = s.announce(t, o)
		require.NoError(t, s.Close(t.Context(), o))
		require.NoError(t, s.Close(t.Context(), o), "closed is closed")
		require.NoError(t, s.Close(t.Context(), unannounced), "by our number alone")
		require.Error(t, s.sim.Pay("order-1"))
		standing, err := s.Query(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, channel.OrderClosed, standing.State)
		_, err = s.Prepay(t.Context(), o)
		definite(t, err, "order_closed")

		gone := o
		gone.Reference = gone.Reference + "x"
		require.NoError(t, s.Close(t.Context(), gone))
		standing, err = s.Query(t.Context(), gone)
		require.NoError(t, err)
		require.Equal(t, channel.OrderUnknown, standing.State)

		other := order("order-2")
		other.Method, other.ReturnURL = method, "https://shop.example/thanks"
		lost := other
		other = s.announce(t, other)
		require.NoError(t, s.sim.Pay("order-2"))
		require.ErrorIs(t, s.Close(t.Context(), other), channel.ErrPaid)
		require.ErrorIs(t, s.Close(t.Context(), lost), channel.ErrPaid, "by our number alone")
	}
}

func TestTheIntentOfASessionIsClosedWithItsSession(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o := order("order-1")
	o.Method, o.ReturnURL = "checkout", "https://shop.example/thanks"
	o = s.announce(t, o)
	require.NoError(t, s.sim.Decline("order-1"), "the first try makes the PaymentIntent")
	o.Reference, o.Method = "", "" // only Search knows it, and Stripe lets nobody cancel it
	require.NoError(t, s.Close(t.Context(), o))
	require.Error(t, s.sim.Pay("order-1"))
}

func TestAnOrderWhoseAnswerWasLostIsFoundByItsNumber(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]simulated.Quirks{
		"by Search":                     {},
		"by the list, as Search lags":   {SearchLags: true},
		"by the list, without a Search": {NoSearch: true},
	} {
		s := newShop(t)
		s.sim.Quirk(quirks)
		for _, method := range []string{"card", "checkout"} {
			o := order("order-" + method)
			o.Method, o.ReturnURL = method, "https://shop.example/thanks"
			standing, err := s.Query(t.Context(), o)
			require.NoError(t, err, name)
			require.Equal(t, channel.OrderUnknown, standing.State, name)

			s.lose("prepay")
			_, err = s.Prepay(t.Context(), o)
			unknown(t, err, name)
			s.misbehave(simulator.Faults{})
			standing, err = s.Query(t.Context(), o)
			require.NoError(t, err, name)
			require.Equal(t, channel.OrderOpen, standing.State, name)

			require.NoError(t, s.sim.Pay(o.OutTradeNo))
			standing, err = s.Query(t.Context(), o)
			require.NoError(t, err, name)
			require.Equal(t, channel.OrderPaid, standing.State, name)
			e := s.said(t, standing.Body)[0]
			byCallback, _ := s.told("stripe:" + e.TransactionID + ":PAY_SUCCESS")
			require.Equal(t, byCallback, e, name)
		}
	}
}

func TestAnotherOrdersCaseIsAnotherOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.announce(t, order("ORDER-1"))
	standing, err := s.Query(t.Context(), order("order-1"))
	require.NoError(t, err)
	require.Equal(t, channel.OrderUnknown, standing.State, "Search heeds no case")
	require.NoError(t, s.Close(t.Context(), order("order-1")))
	require.Equal(t, "OPEN", s.sim.Orders()[0].State)
}

func TestAReferenceOfAnotherOrderIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	paid, _ := s.sell(t, order("order-1"))
	stolen := order("order-2")
	stolen.Reference = paid.Reference
	_, err := s.Query(t.Context(), stolen)
	unknown(t, err, "order-1 was paid, not order-2")
	_, err = s.Prepay(t.Context(), stolen)
	definite(t, err, "order_differs")
}

func TestAnOldOrderIsLookedForBeforeItIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	for name, created := range map[string]time.Time{"older than the keys": time.Now().Add(-25 * time.Hour), "nobody knows how old": {}} {
		s := newShop(t)
		o := order("order-1")
		first, err := s.Prepay(t.Context(), o)
		require.NoError(t, err)
		s.sim.ForgetKeys()
		o.CreatedAt = created
		second, err := s.Prepay(t.Context(), o)
		require.NoError(t, err, name)
		require.JSONEq(t, string(first.Data), string(second.Data), name)
		require.Len(t, s.sim.Orders(), 1, name)

		require.NoError(t, s.sim.Pay("order-1"))
		_, err = s.Prepay(t.Context(), o)
		require.ErrorIs(t, err, channel.ErrPaid)
	}
}

func TestTheSameNumberForAnotherAmount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	o := order("order-1")
	s.announce(t, o)
	o.Amount = 2000
	_, err := s.Prepay(t.Context(), o)
	definite(t, err, "order_differs")
	require.Len(t, s.sim.Orders(), 1)
}

func TestAFailureThatStripeKeepsDoesNotBarAnOrderForADay(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]simulated.Quirks{"nothing was done": {FailKept: 1}, "it was done": {FailAfter: 1}} {
		for _, method := range []string{"card", "checkout"} {
			s := newShop(t)
			s.sim.Quirk(quirks)
			o := order("order-1")
			o.Method, o.ReturnURL = method, "https://shop.example/thanks"
			_, err := s.Prepay(t.Context(), o)
			unknown(t, err, name)
			first, err := s.Prepay(t.Context(), o)
			require.NoError(t, err, name)
			again, err := s.Prepay(t.Context(), o)
			require.NoError(t, err, name)
			require.JSONEq(t, string(first.Data), string(again.Data), name)
			require.Len(t, s.sim.Orders(), 1, name)
		}
	}
}

func TestAmountsGoThereAndComeBackInEveryUnit(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, c := range []struct {
		currency string
		amount   int64
	}{{"JPY", 500}, {"KRW", 50}, {"ISK", 5}, {"UGX", 7000}, {"MGA", 100_000}, {"KWD", 5120}, {"HUF", 17500}, {"TWD", 80045}, {"CNY", 9900}} {
		o := order("order-" + c.currency)
		o.Amount, o.Currency = c.amount, c.currency
		o, id := s.sell(t, o)
		orders := s.sim.Orders()
		last := orders[len(orders)-1]
		require.Equal(t, c.amount, last.Amount, c.currency)
		require.Equal(t, c.currency, last.Currency)
		e, _ := s.told("stripe:" + id + ":PAY_SUCCESS")
		require.Equal(t, c.amount, e.Amount, c.currency)
		require.Equal(t, c.currency, e.Currency)
		standing, err := s.Refund(t.Context(), channel.Refund{OutRefundNo: "r-" + c.currency, TransactionID: id, OutTradeNo: o.OutTradeNo, Amount: c.amount, Currency: c.currency})
		require.NoError(t, err, c.currency)
		require.Equal(t, c.amount, s.said(t, standing.Body)[0].Amount, c.currency)
	}
	before := s.calls("")
	for _, o := range []channel.Order{{OutTradeNo: "x", Amount: 5124, Currency: "KWD"}, {OutTradeNo: "x", Amount: 101, Currency: "MGA"}, {OutTradeNo: "x", Amount: 1, Currency: "LYD"}} {
		_, err := s.Prepay(t.Context(), o)
		require.True(t, channel.Definite(err), "%d %s", o.Amount, o.Currency)
	}
	require.Equal(t, before, s.calls(""), "nothing was sent")
}
