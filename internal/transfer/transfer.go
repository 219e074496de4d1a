// Package transfer moves money, goods and whatever external participants hold, all together or not at all.
//
// A transfer whose legs all live in this database is one journal in one transaction (mode direct). With external
// participants, or on request, it is tried, decided and confirmed or cancelled (TCC): every leg is tried, then one durable
// conditional update decides, and only after it the legs are confirmed or cancelled, for as long as it takes. The legs in
// this database go together, in one transaction per phase, behind one fence.
package transfer

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/stock"
)

// State of a transfer.
type State string

// The states. After CONFIRMING nothing compensates, after CANCELLING nothing confirms.
const (
	Trying     State = "TRYING"
	Confirming State = "CONFIRMING"
	Cancelling State = "CANCELLING"
	Confirmed  State = "CONFIRMED"
	Cancelled  State = "CANCELLED"
)

// Mode says how a transfer is carried out.
type Mode string

// The modes.
const (
	Direct Mode = "direct"
	TCC    Mode = "tcc"
)

// The types of a leg.
const (
	LedgerLeg = "ledger"
	StockLeg  = "stock"
	HTTPLeg   = "http"
)

// Leg is one participant's part.
type Leg struct {
	Type string `json:"type"`
	// ledger: minor units to (positive) or from (negative) an account.
	Account  string `json:"account,omitempty"`
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// stock: a quantity that leaves.
	SKU      string `json:"sku,omitempty"`
	Quantity int64  `json:"quantity,omitempty"`
	// http: the registered participant, and what it is told.
	Participant string          `json:"participant,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`
}

// Request asks for a transfer. Reference and IdempotencyKey name it, and one of them must; the same name is the same transfer.
type Request struct {
	TenantID       string
	Reference      string
	IdempotencyKey string
	Mode           Mode // empty: as the legs allow
	Legs           []Leg
}

// Transfer is a transfer as it stands.
type Transfer struct {
	ID       int64  `db:"id"`
	TenantID string `db:"tenant_id"`
	// GID names the transfer in fences, holds, reservations and to participants: the tenant and the merchant's own name for
	// it, and no attempt number. The workflow's id is made of it.
	GID            string          `db:"gid"`
	Reference      *string         `db:"reference"`
	IdempotencyKey *string         `db:"idempotency_key"`
	Fingerprint    []byte          `db:"fingerprint"`
	Mode           Mode            `db:"mode"`
	State          State           `db:"state"`
	Failure        *string         `db:"failure"`
	LegsJSON       json.RawMessage `db:"legs"`
	CreatedAt      time.Time       `db:"created_at"`
	DecidedAt      *time.Time      `db:"decided_at"`
	EndedAt        *time.Time      `db:"ended_at"`
	// RunID is the run of the flow that has just been started or found, for who waits for its end; else empty.
	RunID string `db:"-"`
	// Tried says that it was just made and tried in one transaction: its flow begins with the decision.
	Tried bool `db:"-"`
}

// Codes of a refusal; a cancelled transfer keeps its code.
const (
	InsufficientFunds  = "insufficient_funds"
	OutOfStock         = "out_of_stock"
	AccountNotFound    = "account_not_found"
	SKUNotFound        = "sku_not_found"
	AmountOutOfRange   = "amount_out_of_range"
	ParticipantRefused = "participant_refused"
	ParticipantAway    = "participant_away"
	Canceled           = "canceled"
)

var (
	// ErrInvalid says that a request cannot be a transfer; its text says why.
	ErrInvalid = errors.New("not a valid transfer")
	// ErrNotFound says that there is no such transfer.
	ErrNotFound = errors.New("no such transfer")
	// ErrKeyReused and ErrReferenceReused say that the name belongs to another transfer.
	ErrKeyReused       = errors.New("the idempotency key belongs to another request")
	ErrReferenceReused = errors.New("the reference belongs to another transfer")
)

// Bounds of one transfer. An amount is one that every JSON reader keeps exactly.
const (
	maxLegs   = 32
	maxAmount = 1<<53 - 1
)

// valid checks a request and says which mode it takes.
func (r Request) valid() (Mode, error) {
	if r.Reference == "" && r.IdempotencyKey == "" {
		return "", fmt.Errorf("%w: it needs a reference or an idempotency key", ErrInvalid)
	}
	if len(r.Legs) == 0 || len(r.Legs) > maxLegs {
		return "", fmt.Errorf("%w: it has 1 to %d legs", ErrInvalid, maxLegs)
	}
	external := false
	accounts := map[string]bool{}
	sums := map[string]int64{}
	for _, l := range r.Legs {
		switch l.Type {
		case LedgerLeg:
			if err := l.validLedger(); err != nil {
				return "", err
			}
			if accounts[l.Currency+l.Account] {
				return "", fmt.Errorf("%w: account %s stands in it twice", ErrInvalid, l.Account)
			}
			accounts[l.Currency+l.Account] = true
			sum := sums[l.Currency] + l.Amount
			if (sum > sums[l.Currency]) != (l.Amount > 0) {
				return "", fmt.Errorf("%w: its amounts are beyond 64 bits", ErrInvalid)
			}
			sums[l.Currency] = sum
		case StockLeg:
			if !stock.ValidSKU(l.SKU) || l.Quantity <= 0 || l.Quantity > math.MaxInt32 {
				return "", fmt.Errorf("%w: a stock leg needs a sku and a quantity above 0", ErrInvalid)
			}
		case HTTPLeg:
			external = true
			if l.Participant == "" {
				return "", fmt.Errorf("%w: an http leg needs its participant", ErrInvalid)
			}
		default:
			return "", fmt.Errorf("%w: a leg's type is ledger, stock or http", ErrInvalid)
		}
	}
	for currency, sum := range sums {
		if sum != 0 {
			return "", fmt.Errorf("%w: its amounts in %s do not sum to zero", ErrInvalid, currency)
		}
	}
	switch {
	case r.Mode == Direct && external:
		return "", fmt.Errorf("%w: a transfer with an http participant cannot be direct", ErrInvalid)
	case r.Mode == TCC || external:
		return TCC, nil
	case r.Mode == Direct || r.Mode == "":
		return Direct, nil
	default:
		return "", fmt.Errorf("%w: mode is direct or tcc", ErrInvalid)
	}
}

// validLedger keeps merchants from the accounts that say what channels and operators have done.
func (l Leg) validLedger() error {
	if !ledger.ValidCode(l.Account) || l.Amount == 0 || l.Amount < -maxAmount || l.Amount > maxAmount || l.Currency == "" {
		return fmt.Errorf("%w: a ledger leg needs an account, an amount of at most %d, and a currency", ErrInvalid, int64(maxAmount))
	}
	if ledger.Reserved(l.Account) {
		return fmt.Errorf("%w: account %s is moved by channels and operators alone", ErrInvalid, l.Account)
	}
	return nil
}

// fingerprint tells two requests under one name apart.
func (r Request) fingerprint(mode Mode) ([]byte, []byte, error) {
	legs, err := json.Marshal(r.Legs)
	if err != nil {
		return nil, nil, fmt.Errorf("write down the legs: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s", mode, legs))
	return sum[:], legs, nil
}

// Ended tells whether nothing will change any more.
func (t Transfer) Ended() bool { return t.State == Confirmed || t.State == Cancelled }

// Legs reads the legs as they were asked for.
func (t Transfer) Legs() ([]Leg, error) {
	var legs []Leg
	if err := json.Unmarshal(t.LegsJSON, &legs); err != nil {
		return nil, fmt.Errorf("read the legs of transfer %d: %w", t.ID, err)
	}
	return legs, nil
}

// split sorts legs by where they live.
func split(legs []Leg) (money []Leg, goods []stock.Item, external []int) {
	for i, l := range legs {
		switch l.Type {
		case LedgerLeg:
			money = append(money, l)
		case StockLeg:
			goods = append(goods, stock.Item{SKU: l.SKU, Quantity: l.Quantity})
		case HTTPLeg:
			external = append(external, i)
		}
	}
	return money, goods, external
}

// refusal gives the code of an error that will not change by trying again; empty for any other.
func refusal(err error) string {
	switch {
	case errors.Is(err, ledger.ErrInsufficient):
		return InsufficientFunds
	case errors.Is(err, stock.ErrOutOfStock):
		return OutOfStock
	case errors.Is(err, ledger.ErrNoAccount):
		return AccountNotFound
	case errors.Is(err, stock.ErrUnknownSKU):
		return SKUNotFound
	case errors.Is(err, ledger.ErrOutOfRange):
		return AmountOutOfRange
	}
	return ""
}
