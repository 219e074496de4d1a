// Package tenant keeps who uses paylatch: tenants, their API keys, and their channel accounts with sealed configurations.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
)

var (
	// ErrName says that a tenant's or an account's name cannot be part of a workflow id or a URL.
	ErrName = errors.New("a name is 1 to 64 of letters, digits and _-. and begins with a letter or digit")
	// ErrExists says that the name is taken.
	ErrExists = errors.New("it exists already")
	// ErrUnknown says that there is no such tenant, account or key.
	ErrUnknown = errors.New("not found")
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Add makes a tenant, its own accounts in its currency, and its first API key, which may do everything, is returned this once
// and never stored. Errors: [ErrName], [ErrExists], [money.ErrUnknownCurrency].
func Add(ctx context.Context, engine *pgxpool.Pool, name, currency string) (apiKey string, err error) {
	if !namePattern.MatchString(name) {
		return "", fmt.Errorf("tenant %q: %w", name, ErrName)
	}
	if _, err := money.Exponent(currency); err != nil {
		return "", err
	}
	err = database.InTx(ctx, engine, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO tenants (tenant_id, default_currency) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, currency)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrExists
		}
		if err := ledger.Ensure(ctx, tx, name,
			ledger.Line{Code: ledger.Merchant, Currency: currency},
			ledger.Line{Code: ledger.Suspense, Currency: currency},
			ledger.Line{Code: ledger.Fees, Currency: currency, AllowNegative: true},
		); err != nil {
			return err
		}
		if err := audit.Record(ctx, tx, name, audit.TenantAdded, name, "currency "+currency); err != nil {
			return err
		}
		apiKey, _, err = AddKey(ctx, tx, name, "", []Scope{Admin})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("add tenant %s: %w", name, err)
	}
	return apiKey, nil
}
