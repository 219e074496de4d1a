package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/workflows/start"
)

// dataFlag lets a command use the settings of a running dev.
type dataFlag struct {
	Data string `help:"Use the settings of the paylatch dev that runs with this data directory." placeholder:"DIR" env:"PAYLATCH_DATA"`
}

// dev reads <data>/dev.json; without --data it is empty.
func (f dataFlag) dev() (devInfo, error) {
	if f.Data == "" {
		return devInfo{}, nil
	}
	return readDevInfo(f.Data)
}

// databaseFlags say where the engine's database is.
type databaseFlags struct {
	dataFlag
	DatabaseURL string `help:"PostgreSQL as the role paylatch_engine: postgres://user:password@host:port/name." env:"PAYLATCH_DATABASE_URL" placeholder:"URL"`
	Connections int    `help:"Most connections of one pool." default:"16" env:"PAYLATCH_DATABASE_CONNECTIONS"`
}

func (f databaseFlags) open() (*pgxpool.Pool, error) {
	dev, err := f.dev()
	if err != nil {
		return nil, err
	}
	url := firstOf(f.DatabaseURL, dev.DatabaseURL)
	if url == "" {
		return nil, errors.New("no database: set PAYLATCH_DATABASE_URL, or --data to use a running paylatch dev")
	}
	return database.Open(url, f.Connections)
}

// keyFlags say where the master key is; the key itself is never a flag.
type keyFlags struct {
	MasterKeyFile string `help:"File that holds the master key (or give the key in PAYLATCH_MASTER_KEY)." env:"PAYLATCH_MASTER_KEY_FILE" placeholder:"FILE"`
}

const (
	masterKeyEnv  = "PAYLATCH_MASTER_KEY"
	masterKeyName = "master.key"
)

func (f keyFlags) box(data string) (*sealed.Box, error) {
	if key := os.Getenv(masterKeyEnv); key != "" {
		return sealed.New(key)
	}
	path := f.MasterKeyFile
	if path == "" && data != "" {
		path = filepath.Join(data, masterKeyName)
	}
	if path == "" {
		return nil, errors.New("no master key: set PAYLATCH_MASTER_KEY or PAYLATCH_MASTER_KEY_FILE (make one with: openssl rand -base64 32)")
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	return sealed.New(string(key))
}

// engineFlags are what a command needs that works with sealed configurations.
type engineFlags struct {
	databaseFlags
	keyFlags
}

func (f engineFlags) openWithKey() (*pgxpool.Pool, *sealed.Box, error) {
	box, err := f.box(f.Data)
	if err != nil {
		return nil, nil, err
	}
	db, err := f.open()
	return db, box, err
}

// planFlags say how long a row may rest.
type planFlags struct {
	RedriveAfter time.Duration `help:"How long an event or a transfer may rest before the re-drive takes it, 5s to 60s, and five times that for a sharing or an order that is being closed: the same for serve and worker." default:"60s" env:"PAYLATCH_REDRIVE_AFTER" placeholder:"DURATION"`
}

// valid keeps the deadline between a hand-over's own retry and what verify calls a fault.
func (f planFlags) valid() error {
	if f.RedriveAfter < payment.DefaultPlan.Retry || f.RedriveAfter > payment.DefaultPlan.Received {
		return fmt.Errorf("--redrive-after is %s to %s", payment.DefaultPlan.Retry, payment.DefaultPlan.Received)
	}
	return nil
}

// slower is how much longer what waits for a channel may rest: an order that is being closed, a sharing.
const slower = 5

func (f planFlags) plan() payment.Plan {
	plan := payment.DefaultPlan
	plan.Received = f.RedriveAfter
	return plan
}

// channelFlags say how channels reach this installation.
type channelFlags struct {
	PublicURL string `help:"Base URL that channels reach the callbacks by, such as https://pay.example.com; without it the URL that each channel's console has counts." env:"PAYLATCH_PUBLIC_URL" placeholder:"URL"`
}

// logFlags say what is logged.
type logFlags struct {
	LogLevel zapcore.Level `help:"Least level that is logged: debug, info, warn, error." default:"info" env:"PAYLATCH_LOG_LEVEL"`
}

// logger writes JSON lines to stderr.
func (f logFlags) logger() *zap.Logger {
	return zap.New(jsonCore(zapcore.Lock(os.Stderr), f.LogLevel))
}

func jsonCore(w zapcore.WriteSyncer, level zapcore.Level) zapcore.Core {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zapcore.NewCore(zapcore.NewJSONEncoder(encoding), w, level)
}

// house is everything that API and workers stand on, put together once.
type house struct {
	engine    *pgxpool.Pool
	accounts  *tenant.Accounts
	entry     *payment.Entry
	books     *payment.Books
	transfers *transfer.Service
	acquiring *acquiring.Service
	shares    *share.Service
	refunds   *refund.Service
	starter   *start.Starter
	group     *ledger.Group
	temporal  client.Client
	redis     *cache.Redis // nil: none
	namespace string
	log       *zap.Logger
}

// houseConfig is what a process decides about its house.
type houseConfig struct {
	box       *sealed.Box
	temporal  client.Options
	plan      payment.Plan
	publicURL string
	log       *zap.Logger
	// redisURL is where processes share what is final; empty: each remembers for itself.
	redisURL string
}

// rememberedEvents is how many DONE events a process remembers: some 20 MB.
const rememberedEvents = 1 << 16

func newHouse(engineDB *pgxpool.Pool, c houseConfig) (*house, error) {
	temporal, err := engine.Open(c.temporal)
	if err != nil {
		return nil, err
	}
	accounts := tenant.NewAccounts(engineDB, registry.All(), c.box)
	starter := start.New(temporal)
	matters := []payment.Matter{share.NewMatter(nil), refund.NewMatter(accounts, nil)}
	entry := payment.NewEntry(engineDB, accounts, starter, c.log, c.plan, nil, matters...)
	books := payment.NewBooks(engineDB, c.log, matters...)
	shares := share.NewService(engineDB, accounts, entry, starter, c.log, nil).RedriveAfter(slower * c.plan.Received)
	h := &house{
		engine:   engineDB,
		accounts: accounts,
		entry:    entry,
		books:    books,
		acquiring: acquiring.New(acquiring.Config{
			Pool: engineDB, Accounts: accounts, Entry: entry, Books: books, Driver: starter, PublicURL: c.publicURL, Log: c.log,
			AskAgain: slower * c.plan.Received,
		}),
		refunds: refund.New(refund.Config{
			Pool: engineDB, Accounts: accounts, Entry: entry, Driver: starter, Shares: shares, PublicURL: c.publicURL, Log: c.log,
			RedriveAfter: c.plan.Received,
		}),
		shares:    shares,
		transfers: transfer.NewService(engineDB, c.box, starter, c.log, nil).RedriveAfter(c.plan.Received),
		starter:   starter,
		group:     ledger.NewGroup(engineDB),
		temporal:  temporal,
		namespace: c.temporal.Namespace,
		log:       c.log,
	}
	return h, h.remember(c)
}

// remember lets duplicates of what is final be answered without the database.
func (h *house) remember(c houseConfig) (err error) {
	caches := []cache.Cache{cache.NewMemory(rememberedEvents)}
	if c.redisURL != "" {
		cache.Quiet(c.log)
		if h.redis, err = cache.NewRedis(c.redisURL, c.box, c.log); err != nil {
			return err
		}
		caches = append(caches, h.redis)
	}
	h.entry.UseCache(cache.Layers(caches...))
	return nil
}

func (h *house) close() {
	h.group.Stop()
	h.temporal.Close()
	if h.redis != nil {
		_ = h.redis.Close() // it only forgets
	}
	h.engine.Close()
}

// await asks until the answer is nil, telling every few seconds what it waits for. An answer that will not change by
// waiting ends it.
func await(ctx context.Context, log *zap.Logger, what string, ask func(context.Context) error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for attempt := 0; ; attempt++ {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ask(try)
		cancel()
		if err == nil || errors.Is(err, database.ErrNotDurable) || errors.Is(err, database.ErrOldSchema) {
			return err
		}
		if attempt%5 == 0 {
			log.Warn("waiting for "+what, zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// writeSecret writes a file that only its owner may read, whole or not at all.
func writeSecret(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func toJSON(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // only plain structs come here
	}
	return append(text, '\n')
}
