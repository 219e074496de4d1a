package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
)

// keyPrefix marks a paylatch API key, for people and for secret scanners.
const keyPrefix = "plk_"

// MaxLiveKeys bounds the keys of a tenant that are live at once: the rate limit is per key.
const MaxLiveKeys = 20

var (
	// ErrNoKey says that the tenant has no such API key.
	ErrNoKey = errors.New("no such API key")
	// ErrKeyName says that a key's name is too long or not text.
	ErrKeyName = errors.New("a key's name has at most 64 characters, none of them a control character")
	// ErrTooManyKeys says that the tenant has as many live keys as it may.
	ErrTooManyKeys = fmt.Errorf("a tenant has at most %d live API keys: revoke one", MaxLiveKeys)
	// ErrLastAdmin says that no live key would be left that can manage keys.
	ErrLastAdmin = errors.New("it is the last live API key with the scope admin: make another one first")
)

// Key is an API key as people see it: the key itself is shown once, when it is made, and never stored.
type Key struct {
	ID        int64     `db:"id"`
	Prefix    string    `db:"prefix"`
	Name      string    `db:"name"`
	Scopes    []Scope   `db:"scopes"`
	CreatedAt time.Time `db:"created_at"`
	// LastUsedAt is up to ten minutes old; nil: never.
	LastUsedAt *time.Time `db:"last_used_at"`
	RevokedAt  *time.Time `db:"revoked_at"`
}

const keySQL = "SELECT id, prefix, name, scopes, created_at, last_used_at, revoked_at FROM api_keys"

// IssueKey is [AddKey] in a transaction of its own.
func IssueKey(ctx context.Context, engine *pgxpool.Pool, tenantID, name string, scopes ...Scope) (apiKey string, k Key, err error) {
	err = database.InTx(ctx, engine, func(tx pgx.Tx) error {
		apiKey, k, err = AddKey(ctx, tx, tenantID, name, scopes)
		return err
	})
	if err != nil {
		return "", Key{}, fmt.Errorf("issue an API key for %s: %w", tenantID, err)
	}
	return apiKey, k, nil
}

// AddKey gives a tenant one more API key, which is returned this once and never stored; others stay live beside it.
// Errors: [ErrKeyName], [ErrScopes], [ErrTooManyKeys], [ErrUnknown] for the tenant.
func AddKey(ctx context.Context, tx pgx.Tx, tenantID, name string, scopes []Scope) (apiKey string, k Key, err error) {
	if utf8.RuneCountInString(name) > 64 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", Key{}, ErrKeyName
	}
	if scopes, err = parsed(scopes); err != nil {
		return "", Key{}, err
	}
	live, err := lockKeys(ctx, tx, tenantID)
	if err != nil {
		return "", Key{}, err
	}
	if len(live) >= MaxLiveKeys {
		return "", Key{}, ErrTooManyKeys
	}
	apiKey, prefix, hash := newKey()
	k, err = oneKey(ctx, tx, `
INSERT INTO api_keys (tenant_id, prefix, hash, name, scopes)
SELECT tenant_id, $2, $3, $4, $5 FROM tenants WHERE tenant_id = $1
RETURNING id, prefix, name, scopes, created_at, last_used_at, revoked_at`, tenantID, prefix, hash, name, scopes)
	if errors.Is(err, ErrNoKey) {
		return "", Key{}, fmt.Errorf("tenant %s: %w", tenantID, ErrUnknown)
	}
	if err != nil {
		return "", Key{}, err
	}
	return apiKey, k, audit.Record(ctx, tx, tenantID, audit.KeyCreated, prefix, "scopes "+joined(scopes))
}

// RevokeKey ends a key at once, in every process; one that was revoked before comes back as it is. keepAdmin refuses to revoke
// the last live key that can manage keys. Errors: [ErrNoKey], [ErrLastAdmin].
func RevokeKey(ctx context.Context, tx pgx.Tx, tenantID string, id int64, keepAdmin bool) (Key, error) {
	live, err := lockKeys(ctx, tx, tenantID)
	if err != nil {
		return Key{}, err
	}
	k, err := oneKey(ctx, tx, keySQL+" WHERE tenant_id = $1 AND id = $2", tenantID, id)
	if err != nil || k.RevokedAt != nil {
		return k, err
	}
	if keepAdmin && !slices.ContainsFunc(live, func(other Key) bool { return other.ID != id && slices.Contains(other.Scopes, Admin) }) {
		return Key{}, ErrLastAdmin
	}
	if _, err := tx.Exec(ctx, "UPDATE api_keys SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL", id); err != nil {
		return Key{}, fmt.Errorf("revoke API key %s: %w", k.Prefix, err)
	}
	if k, err = oneKey(ctx, tx, keySQL+" WHERE id = $1", id); err != nil {
		return Key{}, err
	}
	return k, audit.Record(ctx, tx, tenantID, audit.KeyRevoked, k.Prefix, "")
}

// lockKeys gives a tenant's live keys, and lets no other change of them happen until tx ends: two at once must not pass the
// bound, or revoke each other's last admin.
func lockKeys(ctx context.Context, tx pgx.Tx, tenantID string) ([]Key, error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('api_keys/' || $1, 0))", tenantID); err != nil {
		return nil, fmt.Errorf("lock the API keys of %s: %w", tenantID, err)
	}
	return keys(ctx, tx, keySQL+" WHERE tenant_id = $1 AND revoked_at IS NULL", tenantID)
}

// Keys lists a tenant's keys within tx, newest first, the revoked ones too; before is the cursor, 0 for the newest.
func Keys(ctx context.Context, tx pgx.Tx, tenantID string, before int64, limit int) ([]Key, error) {
	return keys(ctx, tx, keySQL+" WHERE tenant_id = $1 AND ($2::bigint = 0 OR id < $2) ORDER BY id DESC LIMIT $3", tenantID, before, limit)
}

// FindKey finds a tenant's key by its prefix or its id, as a person types it. Error: [ErrNoKey], also where two have the prefix.
func FindKey(ctx context.Context, tx pgx.Tx, tenantID, text string) (Key, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		id = 0
	}
	found, err := keys(ctx, tx, keySQL+" WHERE tenant_id = $1 AND (prefix = $2 OR id = $3)", tenantID, text, id)
	if err != nil {
		return Key{}, err
	}
	if len(found) != 1 {
		return Key{}, fmt.Errorf("%d API keys of tenant %s are called %s: %w", len(found), tenantID, text, ErrNoKey)
	}
	return found[0], nil
}

func keys(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]Key, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Key])
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	return list, nil
}

func oneKey(ctx context.Context, tx pgx.Tx, query string, args ...any) (Key, error) {
	list, err := keys(ctx, tx, query, args...)
	if err == nil && len(list) == 0 {
		err = ErrNoKey
	}
	if err != nil {
		return Key{}, err
	}
	return list[0], nil
}

func parsed(scopes []Scope) ([]Scope, error) {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return ParseScopes(names)
}

func joined(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

// newKey makes 256 random bits, so a plain hash is enough: there is nothing to guess.
func newKey() (key, prefix string, hash []byte) {
	secret := make([]byte, 32)
	rand.Read(secret)
	key = keyPrefix + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(key))
	return key, key[:len(keyPrefix)+6], sum[:]
}

// keyForm is what every key looks like: 32 bytes in base64url.
var keyForm = regexp.MustCompile(`^` + keyPrefix + `[A-Za-z0-9_-]{43}$`)

// IsKey tells whether a text could be an API key.
func IsKey(text string) bool { return keyForm.MatchString(text) }

// Identified is who calls: the tenant that an API key belongs to, and what the key may do.
type Identified struct {
	TenantID        string
	DefaultCurrency string
	KeyID           int64
	KeyPrefix       string
	Scopes          []Scope
	// Life is the life of the database that it was read in; see [database.Life].
	Life string
}

// May tells whether the key has a scope; admin has all.
func (i Identified) May(scope Scope) bool {
	return slices.Contains(i.Scopes, scope) || slices.Contains(i.Scopes, Admin)
}

// Identify finds the tenant of an API key. The database is asked each time, so that a revoked key ends at once. Error:
// [ErrUnknown], also for a revoked key.
func Identify(ctx context.Context, engine *pgxpool.Pool, apiKey string) (Identified, error) {
	sum := sha256.Sum256([]byte(apiKey))
	var who Identified
	var noted bool
	err := engine.QueryRow(ctx, `
SELECT t.tenant_id, t.default_currency, k.id, k.prefix, k.scopes, coalesce(k.last_used_at > now() - interval '10 minutes', false),
       `+database.Life+`
  FROM api_keys k JOIN tenants t USING (tenant_id)
 WHERE k.hash = $1 AND k.revoked_at IS NULL`, sum[:]).
		Scan(&who.TenantID, &who.DefaultCurrency, &who.KeyID, &who.KeyPrefix, &who.Scopes, &noted, &who.Life)
	if errors.Is(err, pgx.ErrNoRows) {
		return Identified{}, fmt.Errorf("API key: %w", ErrUnknown)
	}
	if err != nil {
		return Identified{}, fmt.Errorf("look up the API key: %w", err)
	}
	if !noted {
		// One of many callers notes it and the others do not wait. A note that fails turns nobody away.
		_, _ = engine.Exec(ctx, `
UPDATE api_keys SET last_used_at = now()
 WHERE id = (SELECT id FROM api_keys WHERE id = $1 AND coalesce(last_used_at <= now() - interval '10 minutes', true) FOR UPDATE SKIP LOCKED)`, who.KeyID)
	}
	return who, nil
}
