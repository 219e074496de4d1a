package stripe

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
)

// reasons are the only ones that Stripe takes; any other word stands in the metadata. "fraudulent" puts the card on Stripe's
// block lists.
var reasons = map[string]bool{"duplicate": true, "fraudulent": true, "requested_by_customer": true}

// longestMeta is what Stripe takes as a value of metadata, in characters.
const longestMeta = 500

// Refund implements [channel.Acquirer].
func (a *account) Refund(ctx context.Context, r channel.Refund) (channel.RefundStanding, error) {
	value, err := toStripe(r.Amount, r.Currency)
	if err != nil {
		return channel.RefundStanding{}, err
	}
	payment, err := a.paymentOf(ctx, r.TransactionID, r.Reference, r.OutTradeNo)
	if err != nil {
		return channel.RefundStanding{}, err
	}
	// The key of an earlier call may be forgotten: what that call did is found by our number.
	if found, raw, err := a.findRefund(ctx, payment, r.OutRefundNo); err != nil {
		return channel.RefundStanding{}, err
	} else if found != nil {
		if found.Amount != value || upper(found.Currency) != r.Currency {
			return channel.RefundStanding{}, &channel.Rejection{Code: "refund_differs", Detail: "Stripe knows this number for another refund"}
		}
		return standingOfRefund(*found, raw), nil
	}
	form := url.Values{
		subjectOf(payment):             {payment},
		"amount":                       {strconv.FormatInt(value, 10)},
		"metadata[" + metaRefund + "]": {r.OutRefundNo},
		"metadata[" + metaOrder + "]":  {r.OutTradeNo},
	}
	if reasons[r.Reason] {
		form.Set("reason", r.Reason)
	} else if r.Reason != "" {
		form.Set("metadata["+metaReason+"]", first(r.Reason, longestMeta))
	}
	made, raw, err := made[refund](ctx, a.api, "/v1/refunds", form, key("refund", r.OutRefundNo))
	if err != nil {
		return channel.RefundStanding{}, err
	}
	return standingOfRefund(made, raw), nil
}

// QueryRefund implements [channel.Acquirer].
func (a *account) QueryRefund(ctx context.Context, r channel.Refund) (channel.RefundStanding, error) {
	if r.RefundID != "" {
		found, raw, err := read[refund](ctx, a.api, "/v1/refunds/"+url.PathEscape(r.RefundID), nil)
		if unknownObject(err) {
			return channel.RefundStanding{State: channel.RefundUnknown}, nil
		}
		if err != nil {
			return channel.RefundStanding{}, err
		}
		return standingOfRefund(found, raw), nil
	}
	payment, err := a.paymentOf(ctx, r.TransactionID, r.Reference, r.OutTradeNo)
	if err != nil {
		return channel.RefundStanding{}, err
	}
	found, raw, err := a.findRefund(ctx, payment, r.OutRefundNo)
	if err != nil {
		return channel.RefundStanding{}, err
	}
	if found == nil {
		return channel.RefundStanding{State: channel.RefundUnknown}, nil
	}
	return standingOfRefund(*found, raw), nil
}

// findRefund looks through the refunds of a payment for our number. The list is consistent: what it does not hold was not
// done.
func (a *account) findRefund(ctx context.Context, payment, outRefundNo string) (*refund, []byte, error) {
	query := url.Values{subjectOf(payment): {payment}}
	found, raws, err := pick(ctx, a.api, "/v1/refunds", query, func(r refund) bool { return r.Metadata[metaRefund] == outRefundNo })
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	return &found[0], raws[0], nil
}

// subjectOf names the parameter that a payment is told by.
func subjectOf(payment string) string {
	if strings.HasPrefix(payment, "ch_") || strings.HasPrefix(payment, "py_") {
		return objectCharge
	}
	return objectIntent
}

// standingOfRefund tells nothing of the fee: Stripe keeps it. What it gives back by a contract of one's own is in the bill, and in
// no message about the refund.
func standingOfRefund(r refund, raw []byte) channel.RefundStanding {
	s := channel.RefundStanding{RefundID: r.ID, Reason: r.FailureReason}
	switch r.Status {
	case refundSucceeded:
		s.State, s.Body = channel.RefundSucceeded, raw
	case refundFailed, refundCanceled:
		s.State, s.Body = channel.RefundRefused, raw
		if s.Reason == "" {
			s.Reason = r.Status
		}
	default:
		s.State = channel.RefundPending
	}
	return s
}

// first gives the first n characters.
func first(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n])
	}
	return s
}
