package channel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind is what an event says happened. It is part of the event key, so that one kind never blocks another.
type Kind string

// The kinds of event.
const (
	PaySuccess    Kind = "PAY_SUCCESS"
	PayClosed     Kind = "PAY_CLOSED"
	PayFailed     Kind = "PAY_FAILED"
	RefundSuccess Kind = "REFUND_SUCCESS"
	RefundFailed  Kind = "REFUND_FAILED"
	// RefundAbnormal is a refund that is stuck until a person acts in the channel's console; it is no end.
	RefundAbnormal Kind = "REFUND_ABNORMAL"
	// RefundHint says that something was refunded, in a form that nothing may be booked from: the channel is asked.
	RefundHint Kind = "REFUND_HINT"
	// PayFee is the channel's fee for a payment, of a channel that does not tell it with every message about the payment: the
	// event's Amount is the fee. It moves no order.
	PayFee Kind = "PAY_FEE"
	// PayFeeHint says that the fee of a payment can be asked for.
	PayFeeHint  Kind = "PAY_FEE_HINT"
	ShareResult Kind = "PROFIT_SHARE_RESULT"
	// Unsupported is an authentic message of a type that paylatch has no use for.
	Unsupported Kind = "UNSUPPORTED"
	// Unreadable is an authentic message whose body says nothing that can be used.
	Unreadable Kind = "UNREADABLE"
)

// Event is one fact that a channel reports.
type Event struct {
	Kind Kind
	// Subject names what the fact is about in the channel's own numbers: the transaction of a payment, the refund of a
	// refund, share and receiver of a share. Together with channel and kind it is the event key.
	Subject string
	// TransactionID is the channel's number of the payment.
	TransactionID string
	// OutTradeNo is the merchant's number of the order.
	OutTradeNo string
	// Amount is in minor units of Currency, above 0; 0 with no Currency where the channel tells none.
	Amount int64
	// Currency is an upper-case three-letter code.
	Currency string
	// PayerAmount is what the payer paid of a payment's Amount after the channel's coupons, in the same unit; 0 where the
	// channel does not tell. The merchant gets Amount.
	PayerAmount int64
	// Fee is the channel's fee, in the same unit; nil where the channel does not tell. A channel that tells it in some messages
	// about a fact and not in others never tells it here: the same fact would have two rows. It is a [PayFee] there.
	Fee *int64
	// OutNo is the merchant's own number of the refund or sharing.
	OutNo string
	// Receiver and LegState tell of one leg of a sharing.
	Receiver string
	LegState LegState
	// OccurredAt is the channel's time of the fact; zero where it tells none.
	OccurredAt time.Time
	// Mismatch says in what the message's context (app, merchant, seller, mode) contradicts the account's
	// configuration; such an event is parked.
	Mismatch string
	// Foreign says that it bears no number of ours, in a channel where all that is announced here bears one: it was made by others
	// who use the same account. It is kept, and asks for nothing.
	Foreign bool
	// Note is for people: for instance the type of an unsupported message.
	Note string
}

// Key is the event's deterministic key within its channel account.
func (e Event) Key(channel string, body []byte) string {
	if e.Subject == "" {
		return RawKey(body)
	}
	return channel + ":" + e.Subject + ":" + string(e.Kind)
}

// RawKey is the key of an authentic body that names none of its own.
func RawKey(body []byte) string {
	sum := sha256.Sum256(body)
	return "raw:" + hex.EncodeToString(sum[:])
}

// maxIdentifier is the longest identifier, in characters, that a channel may send.
const maxIdentifier = 128

// maxEvents bounds one body: all its events are stored in one transaction, while the channel waits. No channel reports more
// receivers of one share (WeChat Pay allows 50).
const maxEvents = 50

// Read is Parse with what every channel's events must fulfil, so that nothing behind it can be surprised.
// Error: [*Unusable].
func Read(a Account, body []byte) ([]Event, error) {
	events, err := a.Parse(body)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || len(events) > maxEvents {
		return nil, &Unusable{fmt.Sprintf("it holds %d events; 1 to %d can be read", len(events), maxEvents)}
	}
	for _, e := range events {
		if err := check(e); err != nil {
			return nil, err
		}
	}
	return events, nil
}

func check(e Event) error {
	for _, id := range []struct{ name, value string }{
		{"subject", e.Subject}, {"transaction_id", e.TransactionID}, {"out_trade_no", e.OutTradeNo}, {"own number", e.OutNo}, {"receiver", e.Receiver},
	} {
		if err := checkIdentifier(id.name, id.value); err != nil {
			return err
		}
	}
	if !e.OccurredAt.IsZero() && (e.OccurredAt.UTC().Year() < 2000 || e.OccurredAt.UTC().Year() > 9998) {
		return &Unusable{"its time is in no year that a payment can be of"}
	}
	switch e.Kind {
	case Unsupported:
		return nil
	case PaySuccess, PayClosed, PayFailed:
		if e.Subject == "" || e.OutTradeNo == "" && !e.Foreign {
			return &Unusable{"it names no transaction or no order"}
		}
	default:
		if e.Subject == "" {
			return &Unusable{"it names no transaction"}
		}
	}
	if e.Amount < 0 || (e.Amount == 0) != (e.Currency == "") {
		return &Unusable{"its amount is not above 0 with a currency"}
	}
	if e.PayerAmount < 0 || (e.PayerAmount > 0 && e.Currency == "") {
		return &Unusable{"its payer's amount is not above 0 with a currency"}
	}
	if (e.Kind == PaySuccess || e.Kind == PayFee) && e.Amount == 0 {
		return &Unusable{"it reports a payment without an amount"}
	}
	if (e.Kind == PayFee || e.Kind == PayFeeHint) && e.TransactionID == "" {
		return &Unusable{"it tells of a fee and names no payment"}
	}
	if e.Currency != "" && !isCurrency(e.Currency) {
		return &Unusable{"its currency is not a three-letter code"}
	}
	return nil
}

func checkIdentifier(name, value string) error {
	if utf8.RuneCountInString(value) > maxIdentifier {
		return &Unusable{fmt.Sprintf("its %s has more than %d characters", name, maxIdentifier)}
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return &Unusable{fmt.Sprintf("its %s holds characters that no identifier has", name)}
	}
	return nil
}

func isCurrency(code string) bool {
	return len(code) == 3 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
