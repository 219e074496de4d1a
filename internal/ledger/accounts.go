package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Account is an account's state, in minor units of its currency; Available = Balance - Held.
type Account struct {
	ID            int64
	Code          string
	Currency      string
	Balance       int64
	Held          int64
	Version       int64
	AllowNegative bool
	CreatedAt     time.Time
}

// Available is what can be debited or held.
func (a Account) Available() int64 { return a.Balance - a.Held }

// Ensure makes the accounts that lines name, where they do not exist.
func Ensure(ctx context.Context, tx pgx.Tx, tenant string, lines ...Line) error {
	codes, currencies, _, _, allow := columns(lines)
	if _, err := tx.Exec(ctx, ensureAccountsSQL, tenant, codes, currencies, allow); err != nil {
		return fmt.Errorf("make ledger accounts: %w", err)
	}
	return nil
}

// WellKnown tells whether accounts of this code are made by paylatch itself.
func WellKnown(code string) bool {
	switch code {
	case Merchant, Suspense, Fees, Receivable, Outside, WrittenOff:
		return true
	}
	return isOurs(code)
}

// isOurs tells whether an account is one of a kind that paylatch makes: a channel's, a receiver's, or what a receiver owes.
func isOurs(code string) bool {
	return strings.HasPrefix(code, "channel:") || strings.HasPrefix(code, "receiver:") || strings.HasPrefix(code, Receivable+":")
}

// Reserved tells whether an account is moved by channels and operators alone: it says what they have done.
func Reserved(code string) bool {
	return code != Merchant && WellKnown(code)
}

// Mints tells whether lines pay into an account that paylatch itself made out of one that may go negative: that would be money
// from nowhere on an account whose balance stands for money received.
func Mints(lines []Line) bool {
	fromNowhere, intoOurs := false, false
	for _, l := range lines {
		fromNowhere = fromNowhere || l.Amount < 0 && l.AllowNegative
		intoOurs = intoOurs || l.Amount > 0 && WellKnown(l.Code)
	}
	return fromNowhere && intoOurs
}

// OpenAccount makes an account; created is false when the same one was there. Error: [ErrKeyReused] when it is there with
// another allowNegative.
func OpenAccount(ctx context.Context, tx pgx.Tx, tenant, code, currency string, allowNegative bool) (a Account, created bool, err error) {
	tag, err := tx.Exec(ctx, ensureAccountsSQL, tenant, []string{code}, []string{currency}, []bool{allowNegative})
	if err != nil {
		return Account{}, false, fmt.Errorf("open account %s: %w", code, err)
	}
	if a, err = Find(ctx, tx, tenant, code, currency); err != nil {
		return Account{}, false, err
	}
	if a.AllowNegative != allowNegative {
		return Account{}, false, fmt.Errorf("open account %s: %w", code, ErrKeyReused)
	}
	return a, tag.RowsAffected() == 1, nil
}

// Find reads one account. Error: [ErrNoAccount].
func Find(ctx context.Context, tx pgx.Tx, tenant, code, currency string) (Account, error) {
	rows, err := tx.Query(ctx, `
SELECT id, code, currency, balance, held, version, allow_negative, created_at
  FROM ledger_accounts WHERE tenant_id = $1 AND code = $2 AND currency = $3`, tenant, code, currency)
	if err != nil {
		return Account{}, fmt.Errorf("read account %s: %w", code, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Account])
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, fmt.Errorf("%w: %s in %s", ErrNoAccount, code, currency)
	}
	if err != nil {
		return Account{}, fmt.Errorf("read account %s: %w", code, err)
	}
	return a, nil
}

// Named is an account as a statement saw it.
type Named struct {
	ID, Balance   int64
	AllowNegative bool
}

// Look gives the accounts that lines name, in their order, without a lock. Error: [ErrNoAccount].
func Look(ctx context.Context, tx pgx.Tx, tenant string, lines []Line) ([]Named, error) {
	codes, currencies, _, _, _ := columns(lines)
	rows, err := tx.Query(ctx, idsSQL, tenant, codes, currencies)
	if err != nil {
		return nil, fmt.Errorf("look up accounts: %w", err)
	}
	list := make([]Named, 0, len(lines))
	var id *int64
	var balance int64
	var allow bool
	_, err = pgx.ForEachRow(rows, []any{&id, &balance, &allow}, func() error {
		if id == nil {
			return fmt.Errorf("%w: %s in %s", ErrNoAccount, codes[len(list)], currencies[len(list)])
		}
		list = append(list, Named{*id, balance, allow})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up accounts: %w", err)
	}
	return list, nil
}

//go:embed sql/ids.sql
var idsSQL string

// Entry is one line of an account's statement.
type Entry struct {
	JournalKey   string
	Kind         string
	Amount       int64
	BalanceAfter int64
	// Version is the account's version that this entry made: the statement's order and its cursor.
	Version  int64
	PostedAt time.Time
}

//go:embed sql/statement.sql
var statementSQL string

// Statement lists an account's entries, newest first, before the given version (0: from the newest), at most limit.
func Statement(ctx context.Context, tx pgx.Tx, accountID, before int64, limit int) ([]Entry, error) {
	rows, err := tx.Query(ctx, statementSQL, accountID, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read the statement: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	if err != nil {
		return nil, fmt.Errorf("read the statement: %w", err)
	}
	return entries, nil
}

//go:embed sql/lock.sql
var lockSQL string

// Lock makes the accounts that lines name where they do not exist, locks them in the order of their ids, and gives what each
// has available, in the order of the lines: for whoever decides by that what to book.
func Lock(ctx context.Context, tx pgx.Tx, tenant string, lines ...Line) (available []int64, err error) {
	if err := Ensure(ctx, tx, tenant, lines...); err != nil {
		return nil, err
	}
	codes, currencies, _, _, _ := columns(lines)
	rows, err := tx.Query(ctx, lockSQL, tenant, codes, currencies)
	if err != nil {
		return nil, fmt.Errorf("lock accounts: %w", err)
	}
	available = make([]int64, len(lines))
	var line int
	var free int64
	if _, err = pgx.ForEachRow(rows, []any{&line, &free}, func() error { available[line-1] = free; return nil }); err != nil {
		return nil, fmt.Errorf("lock accounts: %w", err)
	}
	return available, nil
}
