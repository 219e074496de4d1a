package share

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"time"
)

// State of a sharing.
type State string

// The states. PENDING to PROCESSING is on its way; the rest are ends, of which REFUSED can be taken up again.
const (
	Pending    State = "PENDING"    // the intent is here, and the channel is about to be told
	Unknown    State = "UNKNOWN"    // it was sent, and no answer came: it is asked for
	Processing State = "PROCESSING" // the channel has it; its legs are open
	Succeeded  State = "SUCCEEDED"  // every leg was paid
	Partial    State = "PARTIAL"    // some were, the rest stayed with the merchant
	Failed     State = "FAILED"     // the channel closed every leg
	Refused    State = "REFUSED"    // the channel refused it as a whole and did nothing
)

// States lists all states of a sharing.
func States() []State {
	return []State{Pending, Unknown, Processing, Succeeded, Partial, Failed, Refused}
}

// LegState is how far one receiver's part is.
type LegState string

// The states of a leg.
const (
	LegPending   LegState = "PENDING"
	LegSucceeded LegState = "SUCCEEDED"
	LegClosed    LegState = "CLOSED" // nothing was paid to this receiver; its part stayed with the merchant
	LegEmpty     LegState = "EMPTY"  // its part came to nothing and was not sent
)

// Share is a sharing as it stands. Amounts are in minor units of Currency.
type Share struct {
	ID            int64      `db:"id"`
	TenantID      string     `db:"tenant_id"`
	OutOrderNo    string     `db:"out_order_no"`
	PaymentID     int64      `db:"payment_id"`
	OutTradeNo    string     `db:"out_trade_no"`
	AccountID     int64      `db:"account_id"`
	Channel       string     `db:"channel"`
	Account       string     `db:"account"`
	TransactionID string     `db:"transaction_id"`
	Reference     string     `db:"channel_reference"`
	Amount        int64      `db:"amount"`
	Currency      string     `db:"currency"`
	Base          int64      `db:"base"`
	Finish        bool       `db:"finish"`
	Fingerprint   []byte     `db:"fingerprint"`
	State         State      `db:"state"`
	Reason        string     `db:"reason"`
	ShareID       string     `db:"share_id"`
	Sends         int        `db:"sends"`
	Retries       int        `db:"retries"`
	CreatedAt     time.Time  `db:"created_at"`
	StateSince    time.Time  `db:"state_since"`
	EndedAt       *time.Time `db:"ended_at"`
	// Legs are in the order of their accounts.
	Legs []Leg `db:"-"`
}

// Leg is one receiver's part as it stands.
type Leg struct {
	ID          int64      `db:"id"`
	ShareRow    int64      `db:"share_id"`
	Account     string     `db:"account"`
	Type        string     `db:"type"`
	Name        string     `db:"name"`
	Description string     `db:"description"`
	Ratio       *int64     `db:"ratio"`
	Amount      int64      `db:"amount"`
	State       LegState   `db:"state"`
	Reason      string     `db:"reason"`
	JournalKey  *string    `db:"journal_key"`
	TakenBack   int64      `db:"taken_back"`
	Receivable  int64      `db:"receivable"` // of a leg that was paid after all: what could not be taken from the merchant
	Settled     int64      `db:"settled"`    // what of that is owed no more
	Excess      int64      `db:"excess"`     // what of that is beyond the payment
	EndedAt     *time.Time `db:"ended_at"`
}

// Ended tells whether nothing changes any more by itself.
func (s Share) Ended() bool { return s.EndedAt != nil }

// leg finds a receiver's.
func (s Share) leg(account string) (Leg, bool) {
	for _, l := range s.Legs {
		if l.Account == account {
			return l, true
		}
	}
	return Leg{}, false
}

// Errors of this package; api maps each to a status once.
var (
	// ErrNotFound says that there is no such sharing.
	ErrNotFound = errors.New("no such profit sharing")
	// ErrNumberReused says that another sharing already has this out_order_no.
	ErrNumberReused = errors.New("out_order_no belongs to a profit sharing with another content")
	// ErrNotPaid says that only a paid payment can be shared.
	ErrNotPaid = errors.New("the payment is not paid")
	// ErrExceedsLeft says that the shares and refunds of the payment would pass its amount.
	ErrExceedsLeft = errors.New("less of the payment is left than would be shared")
	// ErrFinished says that the sharing of the payment was ended.
	ErrFinished = errors.New("the sharing of this payment is finished")
	// ErrNothing says that nobody would get anything.
	ErrNothing = errors.New("there is nothing to share")
	// ErrNoPlan says that no receivers were named, and none were when the payment was made.
	ErrNoPlan = errors.New("the payment has no sharing plan: name the receivers")
	// ErrPlanDiffers says that the request contradicts the ratios that were frozen when the payment was made.
	ErrPlanDiffers = errors.New("the payment's sharing plan says otherwise")
	// ErrNotRefused says that only a sharing that the channel refused can be taken up again.
	ErrNotRefused = errors.New("the profit sharing has ended and was not refused")
)

// KindShare is the kind of the journals that pay receivers.
const KindShare = "profit_share"

var plainAccount = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,120}$`)

// receiverID names a receiver in account codes, which take fewer characters than the channels do.
func receiverID(account string) string {
	if plainAccount.MatchString(account) {
		return account
	}
	sum := sha256.Sum256([]byte(account))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// ReceiverCode is the ledger account of what a receiver has got, less what it gave back or owes.
func ReceiverCode(account string) string { return "receiver:" + receiverID(account) }

// journalKey names the payment of a leg. The out_order_no holds no colon.
func (s Share) journalKey(l Leg) string { return "share:" + s.OutOrderNo + ":" + l.Account }
