package ledger

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/database"
)

var (
	// ErrNoHold says that there is no such hold.
	ErrNoHold = errors.New("no such hold")
	// ErrHoldExceeded says that a hold has less left than was to be captured.
	ErrHoldExceeded = errors.New("the hold has less left")
	// ErrKeyReused says that a key names another fact already.
	ErrKeyReused = errors.New("the key names something else already")
)

// Hold sets an amount aside on an account: it stays in the balance and is no longer available.
type Hold struct {
	TenantID string
	// Key names the hold; unique per tenant for ever.
	Key      string
	Code     string
	Currency string
	Amount   int64 // minor units, above 0
}

// OpenHold is a hold as it stands; what is open is neither captured nor released.
type OpenHold struct {
	ID        int64  `db:"id"`
	AccountID int64  `db:"account_id"`
	Code      string `db:"code"`
	Currency  string `db:"currency"`
	Amount    int64  `db:"amount"`
	Captured  int64  `db:"captured"`
	Released  int64  `db:"released"`
}

// Open is what is still set aside.
func (h OpenHold) Open() int64 { return h.Amount - h.Captured - h.Released }

//go:embed sql/hold.sql
var holdSQL string

// Place places a hold within tx; repeat is true when the same hold was placed before. It never makes an account.
// Errors: [ErrNoAccount], [ErrInsufficient], [ErrOutOfRange], [ErrKeyReused]; after each the caller must roll tx back.
func Place(ctx context.Context, tx pgx.Tx, h Hold) (repeat bool, err error) {
	if h.Amount <= 0 {
		return false, fmt.Errorf("hold %s: an amount above 0 is held, not %d", h.Key, h.Amount)
	}
	var placed, enough bool
	err = tx.QueryRow(ctx, holdSQL, h.TenantID, h.Code, h.Currency, h.Key, h.Amount).Scan(&placed, &enough)
	if outOfRange(err) {
		return false, fmt.Errorf("hold %s: %w", h.Key, ErrOutOfRange)
	}
	if err != nil {
		return false, fmt.Errorf("hold %s: %w", h.Key, err)
	}
	switch {
	case enough:
		return false, nil
	case placed:
		return false, fmt.Errorf("hold %s on %s: %w", h.Key, h.Code, ErrInsufficient)
	}
	// Nothing was placed: the key is taken, or there is no such account. A new statement sees which.
	there, err := FindHold(ctx, tx, h.TenantID, h.Key)
	switch {
	case errors.Is(err, ErrNoHold):
		return false, fmt.Errorf("hold %s: %w: %s in %s", h.Key, ErrNoAccount, h.Code, h.Currency)
	case err != nil:
		return false, err
	case there.Code != h.Code || there.Currency != h.Currency || there.Amount != h.Amount:
		return false, fmt.Errorf("hold %s: %w", h.Key, ErrKeyReused)
	}
	return true, nil
}

// Refusal gives the name of a guard of the accounts' table that a statement has met; nil for any other error.
func Refusal(err error) error {
	switch {
	case database.Violated(err, "available_not_negative"):
		return ErrInsufficient
	case outOfRange(err):
		return ErrOutOfRange
	case database.Violated(err, "ledger_accounts_held_check"):
		return ErrHoldExceeded
	}
	return nil
}

//go:embed sql/extend.sql
var extendSQL string

// Extend adds an amount to a hold, or places it where there is none. It is not idempotent: the caller's own row says whether it
// was done, and keeps the account's row locked since before the hold's.
// Errors: [ErrNoAccount], [ErrKeyReused] where the hold is on another account, [ErrInsufficient], [ErrOutOfRange]; after each the
// caller must roll tx back.
func Extend(ctx context.Context, tx pgx.Tx, h Hold) error {
	if h.Amount <= 0 {
		return fmt.Errorf("hold %s: an amount above 0 is held, not %d", h.Key, h.Amount)
	}
	if _, err := tx.Exec(ctx, "SELECT FROM ledger_accounts WHERE tenant_id = $1 AND code = $2 AND currency = $3 FOR UPDATE", h.TenantID, h.Code, h.Currency); err != nil {
		return fmt.Errorf("hold %s: %w", h.Key, err)
	}
	var there, enough bool
	err := tx.QueryRow(ctx, extendSQL, h.TenantID, h.Code, h.Currency, h.Key, h.Amount).Scan(&there, &enough)
	switch {
	case outOfRange(err):
		return fmt.Errorf("hold %s: %w", h.Key, ErrOutOfRange)
	case err != nil:
		return fmt.Errorf("hold %s: %w", h.Key, err)
	case enough:
		return nil
	case there:
		return fmt.Errorf("hold %s on %s: %w", h.Key, h.Code, ErrInsufficient)
	}
	if _, err := FindHold(ctx, tx, h.TenantID, h.Key); !errors.Is(err, ErrNoHold) {
		return cmp.Or(err, fmt.Errorf("hold %s: %w", h.Key, ErrKeyReused))
	}
	return fmt.Errorf("hold %s: %w: %s in %s", h.Key, ErrNoAccount, h.Code, h.Currency)
}

// Capture turns a part of a hold, or all of it, into a journal: the amount leaves the hold's account for the other lines.
// The journal's key makes it once: posted is false when it was captured before, and nothing is changed.
// Errors: [ErrNoHold], [ErrHoldExceeded], [ErrUnbalanced], [ErrInsufficient]; after each the caller must roll tx back.
func Capture(ctx context.Context, tx pgx.Tx, holdKey string, amount int64, j Journal) (id int64, posted bool, err error) {
	hold, err := FindHold(ctx, tx, j.TenantID, holdKey)
	if err != nil {
		return 0, false, err
	}
	j.Lines = append([]Line{{Code: hold.Code, Currency: hold.Currency, Amount: -amount, Held: -amount}}, j.Lines...)
	if id, posted, err = Post(ctx, tx, j); err != nil || !posted {
		return id, posted, err
	}
	// The account's row is locked by now: captures of one hold run one after another.
	return id, true, MarkCaptured(ctx, tx, hold.ID, amount)
}

// MarkCaptured takes an amount out of a hold whose account's balance and held amount the caller moves in the same tx.
// Guard: what is left, in the WHERE clause. Error: [ErrHoldExceeded].
func MarkCaptured(ctx context.Context, tx pgx.Tx, holdID, amount int64) error {
	tag, err := tx.Exec(ctx, "UPDATE holds SET captured = captured + $2 WHERE id = $1 AND amount - captured - released >= $2 AND $2 > 0", holdID, amount)
	if err != nil {
		return fmt.Errorf("capture hold %d: %w", holdID, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("capture %d of hold %d: %w", amount, holdID, ErrHoldExceeded)
	}
	return nil
}

// MarkAllCaptured takes whole holds whose accounts' balances and held amounts the caller moves in the same tx.
// Guard: nothing of them is captured or released yet. Error: [ErrHoldExceeded].
func MarkAllCaptured(ctx context.Context, tx pgx.Tx, tenantID string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, "UPDATE holds SET captured = amount WHERE tenant_id = $1 AND key = ANY($2) AND captured = 0 AND released = 0", tenantID, keys)
	if err != nil {
		return fmt.Errorf("capture holds: %w", err)
	}
	if tag.RowsAffected() != int64(len(keys)) {
		return fmt.Errorf("capture holds %v: %w", keys, ErrHoldExceeded)
	}
	return nil
}

//go:embed sql/release.sql
var releaseSQL string

// Release gives back what a hold has left; released is 0 when nothing was. Error: [ErrNoHold].
func Release(ctx context.Context, tx pgx.Tx, tenantID, holdKey string) (released int64, err error) {
	hold, err := FindHold(ctx, tx, tenantID, holdKey)
	if err != nil {
		return 0, err
	}
	// Locked as captures do: the account first, then the hold.
	if _, err := tx.Exec(ctx, "SELECT FROM ledger_accounts WHERE id = $1 FOR UPDATE", hold.AccountID); err != nil {
		return 0, fmt.Errorf("release hold %s: %w", holdKey, err)
	}
	if err := tx.QueryRow(ctx, releaseSQL, hold.ID).Scan(&released); err != nil {
		return 0, fmt.Errorf("release hold %s: %w", holdKey, err)
	}
	return released, nil
}

//go:embed sql/release_part.sql
var releasePartSQL string

// ReleasePart gives back a part of what a hold has left. It is not idempotent: the caller's own row says whether it was done.
// Errors: [ErrNoHold], [ErrHoldExceeded]; after each the caller must roll tx back.
func ReleasePart(ctx context.Context, tx pgx.Tx, tenantID, holdKey string, amount int64) error {
	hold, err := FindHold(ctx, tx, tenantID, holdKey)
	if err != nil {
		return err
	}
	// Locked as captures do: the account first, then the hold.
	if _, err := tx.Exec(ctx, "SELECT FROM ledger_accounts WHERE id = $1 FOR UPDATE", hold.AccountID); err != nil {
		return fmt.Errorf("release %d of hold %s: %w", amount, holdKey, err)
	}
	tag, err := tx.Exec(ctx, releasePartSQL, hold.ID, amount)
	if err != nil {
		return fmt.Errorf("release %d of hold %s: %w", amount, holdKey, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("release %d of hold %s: %w", amount, holdKey, ErrHoldExceeded)
	}
	return nil
}

// FindHold reads a hold. Error: [ErrNoHold].
func FindHold(ctx context.Context, tx pgx.Tx, tenantID, key string) (OpenHold, error) {
	rows, err := tx.Query(ctx, `
SELECT h.id, h.account_id, a.code, a.currency, h.amount, h.captured, h.released
  FROM holds h JOIN ledger_accounts a ON a.id = h.account_id
 WHERE h.tenant_id = $1 AND h.key = $2`, tenantID, key)
	if err != nil {
		return OpenHold{}, fmt.Errorf("read hold %s: %w", key, err)
	}
	hold, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[OpenHold])
	if errors.Is(err, pgx.ErrNoRows) {
		return OpenHold{}, fmt.Errorf("%w: %s", ErrNoHold, key)
	}
	if err != nil {
		return OpenHold{}, fmt.Errorf("read hold %s: %w", key, err)
	}
	return hold, nil
}
