package tenant

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/sealed"
)

// Account is a tenant's account at a channel, with its configuration opened.
type Account struct {
	ID       int64
	TenantID string
	// Name is the account's name in the callback URL.
	Name    string
	Channel channel.Channel
	// Life is the life of the database that it was read in; see [database.Life].
	Life string
	// Version counts changes of the configuration.
	Version int64
	channel.Account
}

// Accounts finds channel accounts. A look-up asks the database, so that an account added or a key rotated by another process
// counts at once; only the opened configuration is kept, by its version, and for [Accounts.Recent] the account for a second.
type Accounts struct {
	engine   *pgxpool.Pool
	channels channel.Set
	box      *sealed.Box

	mu     sync.Mutex
	opened map[int64]openedConfig
	recent recentAccounts
}

type openedConfig struct {
	version int64
	account channel.Account
}

// NewAccounts reads accounts through the engine's pool and opens their configurations with box.
func NewAccounts(engine *pgxpool.Pool, channels channel.Set, box *sealed.Box) *Accounts {
	return &Accounts{engine: engine, channels: channels, box: box, opened: map[int64]openedConfig{}}
}

// Channel gives a channel by name. Error: [ErrUnknown].
func (a *Accounts) Channel(name string) (channel.Channel, error) {
	c, ok := a.channels[name]
	if !ok {
		return nil, fmt.Errorf("channel: %w", ErrUnknown)
	}
	return c, nil
}

// Find gives the account at /callbacks/{channel}/{name}. Error: [ErrUnknown].
func (a *Accounts) Find(ctx context.Context, channelName, name string) (Account, error) {
	return a.find(ctx, "channel = $1 AND account = $2", channelName, name)
}

// ByID gives an account by our own id. Error: [ErrUnknown].
func (a *Accounts) ByID(ctx context.Context, id int64) (Account, error) {
	return a.find(ctx, "id = $1", id)
}

// Asks tells whether an account's channel can be asked about its orders. Error: [ErrUnknown].
func (a *Accounts) Asks(ctx context.Context, id int64) (bool, error) {
	acct, err := a.ByID(ctx, id)
	if err != nil {
		return false, err
	}
	_, asks := acct.Account.(channel.Acquirer)
	return asks, nil
}

// AsksWithin is [Accounts.Asks] within a transaction of the engine, which need not wait for a second connection.
func (a *Accounts) AsksWithin(ctx context.Context, tx pgx.Tx, id int64) (bool, error) {
	acct, err := a.findIn(ctx, tx, "id = $1", id)
	if err != nil {
		return false, err
	}
	_, asks := acct.Account.(channel.Acquirer)
	return asks, nil
}

func (a *Accounts) find(ctx context.Context, where string, args ...any) (Account, error) {
	return a.findIn(ctx, a.engine, where, args...)
}

func (a *Accounts) findIn(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, where string, args ...any) (Account, error) {
	var acct Account
	var channelName string
	var config []byte
	var version int64
	err := db.QueryRow(ctx,
		"SELECT id, tenant_id, channel, account, config, version, "+database.Life+" FROM channel_accounts WHERE "+where, args...).
		Scan(&acct.ID, &acct.TenantID, &channelName, &acct.Name, &config, &version, &acct.Life)
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, fmt.Errorf("channel account: %w", ErrUnknown)
	}
	if err != nil {
		return Account{}, fmt.Errorf("look up the channel account: %w", err)
	}
	if acct.Channel, err = a.Channel(channelName); err != nil {
		return Account{}, err
	}
	acct.Version = version
	acct.Account, err = a.open(acct, version, config)
	return acct, err
}

func (a *Accounts) open(acct Account, version int64, config []byte) (channel.Account, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o, ok := a.opened[acct.ID]; ok && o.version == version {
		return o.account, nil
	}
	plain, err := a.box.Open(config, sealContext(acct.Channel.Name(), acct.Name))
	if err != nil {
		return nil, fmt.Errorf("open the configuration of %s/%s: %w", acct.Channel.Name(), acct.Name, err)
	}
	account, err := acct.Channel.Open(acct.Name, plain)
	if err != nil {
		return nil, fmt.Errorf("open the configuration of %s/%s: %w", acct.Channel.Name(), acct.Name, err)
	}
	a.opened[acct.ID] = openedConfig{version, account}
	return account, nil
}

// Add stores a new account, after its channel has accepted the configuration.
// Errors: [ErrName], [ErrExists], [ErrUnknown] for the tenant or the channel, and the channel's own refusal.
func (a *Accounts) Add(ctx context.Context, tenantID, channelName, name string, config []byte) error {
	identity, secret, err := a.prepare(channelName, name, config)
	if err != nil {
		return err
	}
	added, err := a.change(ctx, tenantID, audit.ChannelAccountAdded, channelName+"/"+name, `
INSERT INTO channel_accounts (tenant_id, channel, account, identity, config)
SELECT tenant_id, $2, $3, $4, $5 FROM tenants WHERE tenant_id = $1
ON CONFLICT DO NOTHING`, tenantID, channelName, name, identity, secret)
	if err != nil {
		return fmt.Errorf("add channel account %s/%s: %w", channelName, name, err)
	}
	if added {
		return nil
	}
	var known bool
	if err := a.engine.QueryRow(ctx, "SELECT EXISTS (SELECT FROM tenants WHERE tenant_id = $1)", tenantID).Scan(&known); err != nil {
		return fmt.Errorf("look up tenant %s: %w", tenantID, err)
	}
	if !known {
		return fmt.Errorf("tenant %s: %w", tenantID, ErrUnknown)
	}
	return fmt.Errorf("channel account %s/%s, or the channel's account %s: %w", channelName, name, identity, ErrExists)
}

// Replace gives an account of the tenant a new configuration: keys are rotated without a restart.
// The channel's own identity stays what it was. Errors: as [Accounts.Add].
func (a *Accounts) Replace(ctx context.Context, tenantID, channelName, name string, config []byte) error {
	identity, secret, err := a.prepare(channelName, name, config)
	if err != nil {
		return err
	}
	replaced, err := a.change(ctx, tenantID, audit.ChannelAccountReplaced, channelName+"/"+name, `
UPDATE channel_accounts SET config = $5, version = version + 1, updated_at = now()
 WHERE tenant_id = $1 AND channel = $2 AND account = $3 AND identity = $4`, tenantID, channelName, name, identity, secret)
	if err != nil {
		return fmt.Errorf("replace channel account %s/%s: %w", channelName, name, err)
	}
	if !replaced {
		return fmt.Errorf("channel account %s/%s of tenant %s with the channel's account %s: %w", channelName, name, tenantID, identity, ErrUnknown)
	}
	return nil
}

// change runs one statement and puts it on record if it changed the one row it is about.
func (a *Accounts) change(ctx context.Context, tenantID string, action audit.Action, target, statement string, args ...any) (changed bool, err error) {
	err = database.InTx(ctx, a.engine, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement, args...)
		if changed = err == nil && tag.RowsAffected() == 1; !changed {
			return err
		}
		return audit.Record(ctx, tx, tenantID, action, target, "")
	})
	return changed, err
}

func (a *Accounts) prepare(channelName, name string, config []byte) (identity string, secret []byte, err error) {
	if !namePattern.MatchString(name) {
		return "", nil, fmt.Errorf("channel account %q: %w", name, ErrName)
	}
	c, err := a.Channel(channelName)
	if err != nil {
		return "", nil, err
	}
	account, err := c.Open(name, config)
	if err != nil {
		return "", nil, fmt.Errorf("configuration of %s/%s: %w", channelName, name, err)
	}
	return account.Identity(), a.box.Seal(config, sealContext(channelName, name)), nil
}

// Config gives an account's configuration in the clear: for the sender of test callbacks. Error: [ErrUnknown].
func (a *Accounts) Config(ctx context.Context, channelName, name string) ([]byte, error) {
	var config []byte
	err := a.engine.QueryRow(ctx, "SELECT config FROM channel_accounts WHERE channel = $1 AND account = $2", channelName, name).Scan(&config)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("channel account %s/%s: %w", channelName, name, ErrUnknown)
	}
	if err != nil {
		return nil, fmt.Errorf("look up the channel account: %w", err)
	}
	return a.box.Open(config, sealContext(channelName, name))
}

// CheckKey reports whether the master key opens what is stored, by one account; nil where there is none. Error: [sealed.ErrSealed].
func (a *Accounts) CheckKey(ctx context.Context) error {
	var channelName, name string
	var config []byte
	err := a.engine.QueryRow(ctx, "SELECT channel, account, config FROM channel_accounts ORDER BY id DESC LIMIT 1").Scan(&channelName, &name, &config)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up a channel account: %w", err)
	}
	if _, err := a.box.Open(config, sealContext(channelName, name)); err != nil {
		return fmt.Errorf("channel account %s/%s: %w", channelName, name, err)
	}
	return nil
}

// sealContext binds a sealed configuration to its account: copied to another row it does not open.
func sealContext(channelName, name string) string {
	return "channel_accounts/" + channelName + "/" + name
}

// CallbackURL is where the account's channel sends its callbacks, below the base that channels reach this installation by;
// empty without a base: then the URL that the channel's own console has counts.
func (a Account) CallbackURL(base string) (string, error) {
	if base == "" {
		return "", nil
	}
	callback, err := url.JoinPath(base, "callbacks", a.Channel.Name(), a.Name)
	if err != nil {
		return "", fmt.Errorf("make the callback URL: %w", err)
	}
	return callback, nil
}
