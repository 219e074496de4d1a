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
}

// verdict is what an event means for its order as that stands now.
type verdict struct {
	state   EventState
	outcome Outcome // empty while RECEIVED: the transaction that books it decides
	reason  string
}

func park(o Outcome, reason string, args ...any) verdict {
	return verdict{Parked, o, fmt.Sprintf(reason, args...)}
}

// judge is pure: the same facts and the same order give the same verdict, whether the event comes by callback, by replay,
// or is about to be booked. known is nil when the tenant has no such order.
func judge(accountID int64, r report, known *order) verdict {
	switch r.Kind {
	case channel.Unreadable:
		return park(Unreadable, "%s", r.Note)
	case channel.Unsupported:
		return verdict{Ignored, UnsupportedType, r.Note}
	case channel.RefundSuccess, channel.RefundFailed:
		return park(UnknownRefund, "no refund of ours has this number")
	case channel.ShareResult:
		return park(UnknownShare, "no profit sharing of ours has this number")
	}
	switch {
	case r.Mismatch != "":
		return park(ContextMismatch, "%s", r.Mismatch)
	case known == nil:
		return park(UnknownOrder, "no order %q yet", r.OutTradeNo)
	case known.AccountID != nil && *known.AccountID != accountID:
		return park(ContextMismatch, "the order is to be paid through another channel account")
	case r.Currency != "" && r.Currency != known.Currency:
		return park(CurrencyMismatch, "reported in %s, the order is in %s", r.Currency, known.Currency)
	case r.Currency != "" && r.Amount != known.Amount:
		return park(AmountMismatch, "reported %s, the order is %s", money.Format(r.Amount, r.Currency), money.Format(known.Amount, known.Currency))
	}
	switch {
	case r.Kind == channel.PaySuccess:
		return verdict{state: Received}
	case known.State != Pending:
		return verdict{Ignored, Stale, fmt.Sprintf("the order was %s", known.State)}
	case r.Kind == channel.PayFailed:
		return verdict{Done, AttemptFailed, "the payer may try again"}
	default:
		return verdict{state: Received}
	}
}
