// Package ledger is the double-entry ledger: accounts, journals and their entries, in minor units.
//
// A journal books one business fact under a key that is unique per tenant, for ever: posting it again changes nothing.
// Its entries sum to zero per currency, arrive in one statement, and are never changed. Every guard stands in the
// database as well (see migrations/00003_ledger.sql), so that hand-written SQL is held to the same rules.
//
// All writes take the caller's transaction: the business row and its journal commit together or not at all.
package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"sort"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/paylatch/paylatch/internal/database"
)

var (
	// ErrUnbalanced says that a journal's lines do not sum to zero in each currency.
	ErrUnbalanced = errors.New("the journal does not balance")
	// ErrInsufficient says that a line would leave an account with less available than it may have.
	ErrInsufficient = errors.New("insufficient funds")
	// ErrOutOfRange says that a balance would be beyond what is kept: half of 64 bits.
	ErrOutOfRange = errors.New("a balance would be out of range")
	// ErrNoAccount says that there is no such account.
	ErrNoAccount = errors.New("no such account")
)

// Well-known account codes. The balance of Merchant rises with a credit.
const (
	Merchant = "merchant"
	// Suspense holds money that came but has no order to go to.
	Suspense = "suspense"
	Fees     = "fees"
	// Receivable is what others owe the tenant for money that left a channel beyond what could be taken from Merchant or
	// Suspense: below zero by what is owed. It may go negative, so that nothing else does in silence.
	Receivable = "receivable"
	// Outside is what was paid to settle a receivable in a way that no channel knows of: below zero by what the merchant paid,
	// above by what it was paid. WrittenOff is what was given up.
	Outside    = "settled:outside"
	WrittenOff = "settled:written_off"
)

// ChannelCode is the account of what a channel account has collected for the tenant; it goes negative as the others rise.
func ChannelCode(channel, account string) string { return "channel:" + channel + ":" + account }

var codePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,159}$`)

// ValidCode tells whether code can name an account.
func ValidCode(code string) bool { return codePattern.MatchString(code) }

// Line moves an amount, in minor units of the currency, to (positive) or from (negative) an account of the tenant.
type Line struct {
	Code     string
	Currency string
	Amount   int64
	// Held changes what the account holds aside, in the same movement: minus the amount when a hold is captured.
	Held int64
	// AllowNegative is how the account is made if it does not exist yet.
	AllowNegative bool
}

// Journal books one business fact.
type Journal struct {
	TenantID string
	// Key names the fact; unique per tenant for ever.
	Key   string
	Kind  string
	Lines []Line
}

//go:embed sql/ensure_accounts.sql
var ensureAccountsSQL string

//go:embed sql/post.sql
var postSQL string

// Post books a journal within tx and answers with its id; posted is false when a journal with this key was there before
// (its id comes back, and nothing is changed). Accounts that do not exist are made. Account rows are locked in the order
// of their ids, whatever the order of the lines. Errors: [ErrUnbalanced], [ErrInsufficient], [ErrOutOfRange]; each aborts tx.
func Post(ctx context.Context, tx pgx.Tx, j Journal) (id int64, posted bool, err error) {
	lines, err := merge(j.Lines)
	if err != nil {
		return 0, false, err
	}
	codes, currencies, amounts, helds, allow := columns(lines)
	// Both statements go in one round trip.
	var batch pgx.Batch
	batch.Queue(ensureAccountsSQL, j.TenantID, codes, currencies, allow)
	batch.Queue(postSQL, j.TenantID, j.Key, j.Kind, codes, currencies, amounts, helds)
	replies := tx.SendBatch(ctx, &batch)
	if _, err = replies.Exec(); err == nil {
		err = replies.QueryRow().Scan(&id)
	}
	if closeErr := replies.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err == nil:
		return id, true, nil
	case errors.Is(err, pgx.ErrNoRows):
		// Somebody else's journal: a new statement sees it, this one's snapshot may not.
		err = tx.QueryRow(ctx, "SELECT id FROM journals WHERE tenant_id = $1 AND key = $2", j.TenantID, j.Key).Scan(&id)
		if err != nil {
			return 0, false, fmt.Errorf("read journal %s: %w", j.Key, err)
		}
		return id, false, nil
	case database.Violated(err, "available_not_negative"):
		return 0, false, fmt.Errorf("post journal %s: %w", j.Key, ErrInsufficient)
	case outOfRange(err):
		return 0, false, fmt.Errorf("post journal %s: %w", j.Key, ErrOutOfRange)
	case database.Violated(err, "ledger_accounts_held_check"):
		return 0, false, fmt.Errorf("post journal %s: %w", j.Key, ErrHoldExceeded)
	default:
		return 0, false, fmt.Errorf("post journal %s: %w", j.Key, err)
	}
}

func outOfRange(err error) bool {
	var pg *pgconn.PgError
	return database.Violated(err, "amounts_in_range") || errors.As(err, &pg) && pg.Code == "22003"
}

// merge gives one line per account, in a fixed order, and refuses what does not balance before the database has to.
func merge(lines []Line) ([]Line, error) {
	type key struct{ code, currency string }
	byAccount := map[key]int{}
	sums := map[string]int64{}
	var merged []Line
	for _, l := range lines {
		if l.Amount == 0 {
			continue
		}
		sum, ok := add(sums[l.Currency], l.Amount)
		if !ok {
			return nil, fmt.Errorf("%w: the sum of its lines is beyond 64 bits", ErrUnbalanced)
		}
		sums[l.Currency] = sum
		k := key{l.Code, l.Currency}
		if i, seen := byAccount[k]; seen {
			if merged[i].Amount, ok = add(merged[i].Amount, l.Amount); !ok {
				return nil, fmt.Errorf("%w: the sum of its lines is beyond 64 bits", ErrUnbalanced)
			}
			merged[i].Held += l.Held
			continue
		}
		byAccount[k] = len(merged)
		merged = append(merged, l)
	}
	for currency, sum := range sums {
		if sum != 0 {
			return nil, fmt.Errorf("%w: %s is off by %d", ErrUnbalanced, currency, sum)
		}
	}
	kept := merged[:0]
	for _, l := range merged {
		if l.Amount == 0 && l.Held != 0 {
			return nil, fmt.Errorf("%w: account %s pays itself out of a hold", ErrUnbalanced, l.Code)
		}
		if l.Amount != 0 {
			kept = append(kept, l)
		}
	}
	if len(kept) < 2 {
		return nil, fmt.Errorf("%w: it moves nothing", ErrUnbalanced)
	}
	sort.Slice(kept, func(a, b int) bool {
		if kept[a].Code != kept[b].Code {
			return kept[a].Code < kept[b].Code
		}
		return kept[a].Currency < kept[b].Currency
	})
	return kept, nil
}

func add(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

func columns(lines []Line) (codes, currencies []string, amounts, helds []int64, allow []bool) {
	for _, l := range lines {
		codes = append(codes, l.Code)
		currencies = append(currencies, l.Currency)
		amounts = append(amounts, l.Amount)
		helds = append(helds, l.Held)
		allow = append(allow, l.AllowNegative)
	}
	return codes, currencies, amounts, helds, allow
}
