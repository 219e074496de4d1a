package payment

import (
	"fmt"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
)

// order is what judging needs to know of a payment.
type order struct {
	ID        int64  `db:"id"`
	Amount    int64  `db:"amount"`
	Currency  string `db:"currency"`
	AccountID *int64 `db:"account_id"`
	State     State  `db:"state"`
	Items     int    `db:"items"` // how many skus are reserved with it
	WantsCode bool   `db:"wants_code"`
	// Reference is the channel's own name of the attempt that the order was announced with, where it has one.
	Reference string  `db:"channel_reference"`
	Prepay    *string `db:"prepay_state"`
}

// attemptedBy tells whether an event may be about the attempt by which the order can be paid now. A channel that names attempts
// can have several of one order, of which answers were lost: the end of one must not close the order while another can be paid.
func (o order) attemptedBy(r report) bool {
	if o.Reference == "" {
		return deref(o.Prepay) != PrepayPending
	}
	return r.Subject == o.Reference || r.TransactionID == o.Reference
}

// Verdict is what an event means for what it is about, as that stands now.
type Verdict struct {
	State   EventState
	Outcome Outcome // empty while RECEIVED: the transaction that books it decides
	Reason  string  // for people; an end has one
	// The rest is a [Matter]'s alone. Flow is the flow that a RECEIVED event goes to.
	Flow Flow
	// Journal is what [Matter.Book] booked, where money moved.
	Journal *int64
	// Matter is the state in which Book found or left the matter.
	Matter string
	// Ask says that Book cannot tell before the channel is asked: the event stays RECEIVED, its flow asks and books it again.
	Ask bool
	// Alert names the alert that is raised once the transaction is committed; empty raises what the outcome raises.
	Alert string
}

// Park is the verdict on what cannot be booked, yet or at all.
func Park(o Outcome, reason string, args ...any) Verdict {
	return Verdict{State: Parked, Outcome: o, Reason: fmt.Sprintf(reason, args...)}
}

// Ignore is the verdict on what asks for nothing.
func Ignore(o Outcome, reason string, args ...any) Verdict {
	return Verdict{State: Ignored, Outcome: o, Reason: fmt.Sprintf(reason, args...)}
}

// judge is pure: the same facts and the same order give the same verdict, whether the event comes by callback, by replay,
// or is about to be booked. known is nil when the tenant has no such order.
func judge(accountID int64, r report, known *order) Verdict {
	switch r.Kind {
	case channel.Unreadable:
		return Park(Unreadable, "%s", r.Note)
	case channel.Unsupported:
		return Verdict{State: Ignored, Outcome: UnsupportedType, Reason: r.Note}
	case channel.RefundSuccess, channel.RefundFailed, channel.RefundAbnormal, channel.RefundHint:
		return Park(UnknownRefund, "no refund of ours has this number")
	case channel.ShareResult:
		return Park(UnknownShare, "no profit sharing of ours has this number")
	}
	switch {
	case r.Mismatch != "":
		return Park(ContextMismatch, "%s", r.Mismatch)
	case known == nil:
		return Park(UnknownOrder, "no order %q yet", r.OutTradeNo)
	case known.AccountID != nil && *known.AccountID != accountID:
		return Park(ContextMismatch, "the order is to be paid through another channel account")
	case r.Currency != "" && r.Currency != known.Currency:
		return Park(CurrencyMismatch, "reported in %s, the order is in %s", r.Currency, known.Currency)
	case r.Currency != "" && r.Amount != known.Amount:
		return Park(AmountMismatch, "reported %s, the order is %s", money.Format(r.Amount, r.Currency), money.Format(known.Amount, known.Currency))
	}
	switch {
	case r.Kind == channel.PaySuccess:
		return Verdict{State: Received}
	case known.State != Pending:
		return Ignore(Stale, "the order was %s", known.State)
	case r.Kind == channel.PayFailed:
		return Verdict{State: Done, Outcome: AttemptFailed, Reason: "the payer may try again"}
	case !known.attemptedBy(r):
		return Ignore(Stale, "another attempt of the order was closed: by its own it can still be paid")
	default:
		return Verdict{State: Received}
	}
}
