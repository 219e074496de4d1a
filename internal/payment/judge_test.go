package payment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const account, other = int64(1), int64(2)
	at := func(s State) *order { return &order{Amount: 100, Currency: "CNY", State: s} }
	bound := func(to int64) *order { return &order{Amount: 100, Currency: "CNY", State: Pending, AccountID: &to} }
	says := func(k channel.Kind, amount int64, currency string) report {
		return report{Event: channel.Event{Kind: k, OutTradeNo: "o", TransactionID: "t", Amount: amount, Currency: currency}}
	}
	announced := func(reference string) *order {
		ready := PrepayReady
		return &order{Amount: 100, Currency: "CNY", State: Pending, Reference: reference, Prepay: &ready}
	}
	announcing, pending := announced(""), PrepayPending
	announcing.Prepay = &pending
	session := says(channel.PayClosed, 0, "")
	session.Subject = "session"
	paid := says(channel.PaySuccess, 100, "CNY")
	foreign := paid
	foreign.Mismatch = "another app"

	for _, c := range []struct {
		name    string
		report  report
		order   *order
		state   EventState
		outcome Outcome
	}{
		{"paid, pending", paid, at(Pending), Received, ""},
		{"paid, paid by another transaction: to be booked to suspense", paid, at(Paid), Received, ""},
		{"paid, closed: to be booked to suspense", paid, at(Closed), Received, ""},
		{"paid through the chosen account", paid, bound(account), Received, ""},
		{"paid through another account", paid, bound(other), Parked, ContextMismatch},
		{"paid, no order", paid, nil, Parked, UnknownOrder},
		{"paid, wrong context", foreign, at(Pending), Parked, ContextMismatch},
		{"paid, wrong context and no order", foreign, nil, Parked, ContextMismatch},
		{"paid too little", says(channel.PaySuccess, 99, "CNY"), at(Pending), Parked, AmountMismatch},
		{"paid too much, order already paid", says(channel.PaySuccess, 101, "CNY"), at(Paid), Parked, AmountMismatch},
		{"paid in another currency", says(channel.PaySuccess, 100, "USD"), at(Pending), Parked, CurrencyMismatch},
		{"closed, pending", says(channel.PayClosed, 0, ""), at(Pending), Received, ""},
		{"closed with another amount", says(channel.PayClosed, 1, "CNY"), at(Pending), Parked, AmountMismatch},
		{"closed, paid", says(channel.PayClosed, 100, "CNY"), at(Paid), Ignored, Stale},
		{"closed, shipped", says(channel.PayClosed, 100, "CNY"), at(Shipped), Ignored, Stale},
		{"closed, closed", says(channel.PayClosed, 100, "CNY"), at(Closed), Ignored, Stale},
		{"its own attempt is closed", says(channel.PayClosed, 0, ""), announced("t"), Received, ""},
		{"the page by which it was announced is closed", session, announced("session"), Received, ""},
		{"another attempt is closed", says(channel.PayClosed, 0, ""), announced("other"), Ignored, Stale},
		{"an attempt is closed while another is being made", says(channel.PayClosed, 0, ""), announcing, Ignored, Stale},
		{"closed by a channel that names no attempts", says(channel.PayClosed, 0, ""), announced(""), Received, ""},
		{"another attempt is paid", paid, announced("other"), Received, ""},
		{"failed, pending", says(channel.PayFailed, 100, "CNY"), at(Pending), Done, AttemptFailed},
		{"failed, paid", says(channel.PayFailed, 100, "CNY"), at(Paid), Ignored, Stale},
		{"refund nobody asked for", says(channel.RefundSuccess, 100, "CNY"), at(Paid), Parked, UnknownRefund},
		{"share nobody asked for", says(channel.ShareResult, 100, "CNY"), at(Paid), Parked, UnknownShare},
		{"unsupported", says(channel.Unsupported, 0, ""), nil, Ignored, UnsupportedType},
		{"unreadable", says(channel.Unreadable, 0, ""), nil, Parked, Unreadable},
	} {
		v := judge(account, c.report, c.order)
		require.Equal(t, c.state, v.State, c.name)
		require.Equal(t, c.outcome, v.Outcome, c.name)
	}
}
