// Package tenant keeps who uses paylatch: tenants, their API keys, and their channel accounts with sealed configurations.
package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// keyPrefix marks a paylatch API key, for people and for secret scanners.
const keyPrefix = "plk_"

// Add makes a tenant, its own accounts in its currency, and its first API key, which is returned this once and never
// stored. Errors: [ErrName], [ErrExists], [money.ErrUnknownCurrency].
func Add(ctx context.Context, engine *pgxpool.Pool, name, currency string) (apiKey string, err error) {
	if !namePattern.MatchString(name) {
		return "", fmt.Errorf("tenant %q: %w", name, ErrName)
	}
	if _, err := money.Exponent(currency); err != nil {
		return "", err
	}
	apiKey, prefix, hash := newKey()
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
			ledger.Line{Code: ledger.Fees, Currency: currency},
		); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO api_keys (tenant_id, prefix, hash) VALUES ($1, $2, $3)", name, prefix, hash)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("add tenant %s: %w", name, err)
	}
	return apiKey, nil
}

// IssueKey gives a tenant one more API key, returned this once and never stored. Error: [ErrUnknown].
func IssueKey(ctx context.Context, engine *pgxpool.Pool, tenantID string) (apiKey string, err error) {
	apiKey, prefix, hash := newKey()
	tag, err := engine.Exec(ctx, `
INSERT INTO api_keys (tenant_id, prefix, hash) SELECT tenant_id, $2, $3 FROM tenants WHERE tenant_id = $1`, tenantID, prefix, hash)
	if err != nil {
		return "", fmt.Errorf("issue an API key for %s: %w", tenantID, err)
	}
	if tag.RowsAffected() == 0 {
		return "", fmt.Errorf("tenant %s: %w", tenantID, ErrUnknown)
	}
	return apiKey, nil
}

// newKey makes 256 random bits, so a plain hash is enough: there is nothing to guess.
func newKey() (key, prefix string, hash []byte) {
	secret := make([]byte, 32)
	rand.Read(secret)
	key = keyPrefix + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(key))
	return key, key[:len(keyPrefix)+6], sum[:]
}

// Identified is the tenant that an API key belongs to.
type Identified struct {
	TenantID        string
	DefaultCurrency string
}

// Identify finds the tenant of an API key. Error: [ErrUnknown], also for a revoked key.
func Identify(ctx context.Context, engine *pgxpool.Pool, apiKey string) (Identified, error) {
	sum := sha256.Sum256([]byte(apiKey))
	var who Identified
	err := engine.QueryRow(ctx, `
SELECT t.tenant_id, t.default_currency
  FROM api_keys k JOIN tenants t USING (tenant_id)
 WHERE k.hash = $1 AND k.revoked_at IS NULL`, sum[:]).Scan(&who.TenantID, &who.DefaultCurrency)
	if errors.Is(err, pgx.ErrNoRows) {
		return Identified{}, fmt.Errorf("API key: %w", ErrUnknown)
	}
	if err != nil {
		return Identified{}, fmt.Errorf("look up the API key: %w", err)
	}
	return who, nil
}
