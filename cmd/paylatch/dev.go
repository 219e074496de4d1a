package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/migrations"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
)

type devCommand struct {
	HTTP            string        `help:"Address of the API." name:"http" default:"127.0.0.1:8080" placeholder:"ADDRESS"`
	Data            string        `help:"Directory that keeps the state." default:".paylatch" placeholder:"DIR"`
	TemporalPort    int           `help:"Port of Temporal; 0 picks a free one." default:"7233"`
	UIPort          int           `help:"Port of the Temporal UI; 0 picks a free one." name:"ui-port" default:"8233"`
	PostgresPort    int           `help:"Port of PostgreSQL; 0 picks a free one." default:"0"`
	DatabaseURL     string        `help:"Use this PostgreSQL, as a role that may create roles and tables, instead of a private one." env:"PAYLATCH_DEV_DATABASE_URL" placeholder:"URL"`
	TemporalAddress string        `help:"Use this Temporal instead of a private one." env:"TEMPORAL_ADDRESS" placeholder:"HOST:PORT"`
	TemporalUI      string        `help:"Base URL of the UI of a given Temporal, for links." name:"temporal-ui" env:"PAYLATCH_TEMPORAL_UI" placeholder:"URL"`
	Simulators      string        `help:"Address of the simulated acquirers' page." default:"127.0.0.1:0" placeholder:"ADDRESS"`
	NoDemo          bool          `help:"Do not play the demo."`
	LogLevel        zapcore.Level `help:"Least level that is shown; the file paylatch.log in the data directory has info and above." default:"warn"`
}

// devInfo is <data>/dev.json: what tools and tests need to know about a running dev. It holds secrets, so only its owner
// may read it.
type devInfo struct {
	HTTP       string `json:"http"`
	Console    string `json:"console"`
	Temporal   string `json:"temporal"`
	TemporalUI string `json:"temporal_ui"`
	// DatabaseURL is the engine's role, which reads all tenants; the other two are the API's role and the owner.
	DatabaseURL      string `json:"database_url"`
	APIDatabaseURL   string `json:"api_database_url"`
	OwnerDatabaseURL string `json:"owner_database_url"`
	Tenant           string `json:"tenant"`
	APIKey           string `json:"api_key"`
	// Simulator is the page of the simulated acquirers.
	Simulator string                `json:"simulator"`
	Accounts  map[string]devAccount `json:"accounts"`
}

type devAccount struct {
	Account string `json:"account"`
	// Secret signs the callbacks of a channel whose key both sides share.
	Secret string `json:"secret,omitempty"`
	// Config is the whole configuration of a simulated acquirer's account.
	Config json.RawMessage `json:"config,omitempty"`
}

const (
	devInfoName = "dev.json"
	demoTenant  = "demo"
	demoAccount = "demo"
)

// Run starts what is missing from the bottom up and stops it from the top down.
func (c *devCommand) Run(ctx context.Context) (err error) {
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data, 0o755); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	log, closeLog, err := c.logger()
	if err != nil {
		return err
	}
	defer closeLog()
	if err := c.checkPort(ctx); err != nil {
		return err
	}

	var postgres *devstack.Postgres
	var temporal *devstack.Temporal
	// Both start at once: they do not know each other.
	starting, startCtx := errgroup.WithContext(ctx)
	starting.Go(func() (err error) {
		postgres, err = devstack.StartPostgres(startCtx, devstack.PostgresOptions{
			URL: c.DatabaseURL, Dir: filepath.Join(c.Data, "postgres"), Port: c.PostgresPort, Progress: os.Stderr,
		})
		return err
	})
	starting.Go(func() (err error) {
		temporal, err = devstack.StartTemporal(startCtx, devstack.TemporalOptions{
			Address: c.TemporalAddress, Namespace: c.namespace(), Dir: filepath.Join(c.Data, "temporal"), Port: c.TemporalPort, UIPort: c.UIPort,
			SearchAttributes: workflows.SearchAttributes(), Progress: os.Stderr,
		})
		return err
	})
	startErr := starting.Wait()
	if postgres != nil {
		defer func() { err = errors.Join(err, postgres.Stop()) }()
	}
	if temporal != nil {
		defer func() { err = errors.Join(err, temporal.Stop()) }()
	}
	if startErr != nil {
		return startErr
	}
	info := devInfo{Temporal: temporal.Address(), TemporalUI: firstOf(temporal.UIURL(), c.TemporalUI), Tenant: demoTenant}
	return c.serve(ctx, log, postgres.URL(), info)
}

// logger shows little and writes more into <data>/paylatch.log.
func (c *devCommand) logger() (*zap.Logger, func(), error) {
	file, err := os.OpenFile(filepath.Join(c.Data, "paylatch.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log: %w", err)
	}
	log := zap.New(zapcore.NewTee(jsonCore(zapcore.Lock(os.Stderr), c.LogLevel), jsonCore(zapcore.Lock(file), zapcore.InfoLevel)))
	return log, func() {
		_ = log.Sync() // a terminal cannot be synced, and that is no fault
		_ = file.Close()
	}, nil
}

// checkPort tells of a taken port before anything is started, and picks one in the place of 0: channels are told of it.
func (c *devCommand) checkPort(ctx context.Context) error {
	listener, err := api.Listen(ctx, c.HTTP)
	if err != nil {
		return err
	}
	c.HTTP = listener.Addr().String()
	return listener.Close()
}

func (c *devCommand) serve(ctx context.Context, log *zap.Logger, ownerURL string, info devInfo) error {
	if _, err := migrations.Up(ctx, ownerURL); err != nil {
		return err
	}
	if err := info.setDatabases(ownerURL); err != nil {
		return err
	}
	box, err := c.masterKey()
	if err != nil {
		return err
	}
	engineDB, err := database.Open(info.DatabaseURL, devConnections)
	if err != nil {
		return err
	}
	apiDB, err := database.Open(info.APIDatabaseURL, devConnections)
	if err != nil {
		return err
	}
	defer apiDB.Close()
	options, err := c.temporalOptions(info.Temporal, log)
	if err != nil {
		return err
	}
	h, err := newHouse(engineDB, houseConfig{box, options, payment.DefaultPlan, "http://" + dialable(c.HTTP), log, ""})
	if err != nil {
		return err
	}
	defer h.close()
	if err := database.Ready(ctx, engineDB); err != nil {
		return err
	}
	if err := c.demoTenant(ctx, engineDB, h.accounts, &info); err != nil {
		return err
	}
	acquirers, err := c.acquirers(ctx, h.accounts, &info)
	if err != nil {
		return err
	}

	// Workers outlive the API by as long as they need to end what it began.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.work(groupCtx, worker.Queues(), devConnections) })
	group.Go(func() error { h.accounts.Watch(groupCtx, log); return nil })
	group.Go(func() error { return acquirers.serve(groupCtx) })
	listening := make(chan string, 1)
	group.Go(func() error {
		return api.Serve(groupCtx, c.HTTP, h.handler(apiDB, info.TemporalUI, callerFlags{}), log, func(address string) { listening <- address })
	})
	group.Go(func() error {
		select {
		case <-groupCtx.Done():
			return nil
		case address := <-listening:
			info.HTTP = "http://" + dialable(address)
		}
		info.Console = info.HTTP + "/console"
		if err := writeSecret(filepath.Join(c.Data, devInfoName), toJSON(info)); err != nil {
			return fmt.Errorf("write %s: %w", devInfoName, err)
		}
		return c.present(groupCtx, os.Stdout, info)
	})
	err = group.Wait()
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "stopping")
		return nil
	}
	return err
}

// namespace is the environment's for a Temporal that was given; a private one has the default one.
func (c *devCommand) namespace() string {
	if c.TemporalAddress == "" {
		return client.DefaultNamespace
	}
	return firstOf(os.Getenv("TEMPORAL_NAMESPACE"), client.DefaultNamespace)
}

// temporalOptions follow the environment for a Temporal that was given, and it alone.
func (c *devCommand) temporalOptions(address string, log *zap.Logger) (client.Options, error) {
	if c.TemporalAddress == "" {
		return engine.Options(address, log)
	}
	options, err := engine.Options("", log)
	options.HostPort = address
	return options, err
}

// devConnections is the size of each pool in dev.
const devConnections = 16

// dialable makes an address that others can call out of one that we listen on.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (i *devInfo) setDatabases(ownerURL string) (err error) {
	i.OwnerDatabaseURL = ownerURL
	if i.DatabaseURL, err = database.AsRole(ownerURL, database.RoleEngine); err != nil {
		return err
	}
	i.APIDatabaseURL, err = database.AsRole(ownerURL, database.RoleAPI)
	return err
}

// masterKey makes the installation's key on the first start.
func (c *devCommand) masterKey() (*sealed.Box, error) {
	path := filepath.Join(c.Data, masterKeyName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := writeSecret(path, []byte(sealed.NewKey()+"\n")); err != nil {
			return nil, fmt.Errorf("write the master key: %w", err)
		}
	}
	return keyFlags{}.box(c.Data)
}

// demoTenant makes the demo tenant with one account per channel that needs no key of a real acquirer, or finds them again.
func (c *devCommand) demoTenant(ctx context.Context, db *pgxpool.Pool, accounts *tenant.Accounts, info *devInfo) error {
	before, err := readDevInfo(c.Data)
	if err == nil {
		_, err = tenant.Identify(ctx, db, before.APIKey)
	}
	info.APIKey = before.APIKey
	if err != nil {
		if info.APIKey, err = tenant.Add(ctx, db, demoTenant, "CNY"); errors.Is(err, tenant.ErrExists) {
			info.APIKey, _, err = tenant.IssueKey(ctx, db, demoTenant, "", tenant.Admin)
		}
		if err != nil {
			return err
		}
	}
	config, err := accounts.Config(ctx, standard.Name, demoAccount)
	if errors.Is(err, tenant.ErrUnknown) {
		config = toJSON(standard.Config{Secrets: []string{newSecret()}})
		err = accounts.Add(ctx, demoTenant, standard.Name, demoAccount, config)
	}
	if err != nil {
		return err
	}
	secret, err := standard.FirstSecret(config)
	if err != nil {
		return err
	}
	info.Accounts = map[string]devAccount{standard.Name: {Account: demoAccount, Secret: secret}}
	return nil
}

// acquirers starts the simulated acquirers and gives the demo tenant an account at each. Their keys are new with each start.
func (c *devCommand) acquirers(ctx context.Context, accounts *tenant.Accounts, info *devInfo) (*simulated, error) {
	s, err := newSimulated(c.Simulators)
	if err != nil {
		return nil, err
	}
	for name, config := range s.configs {
		err := accounts.Add(ctx, demoTenant, name, demoAccount, config)
		if errors.Is(err, tenant.ErrExists) {
			err = accounts.Replace(ctx, demoTenant, name, demoAccount, config)
		}
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		info.Accounts[name] = devAccount{Account: demoAccount, Config: config}
	}
	s.callback("http://"+dialable(c.HTTP), demoAccount)
	info.Simulator = s.control
	return s, nil
}

func newSecret() string {
	return "whsec_" + base64.StdEncoding.EncodeToString(randomBytes(32))
}

// present plays the demo and says where to look.
func (c *devCommand) present(ctx context.Context, out io.Writer, info devInfo) (err error) {
	fmt.Fprintf(out, "\npaylatch is up\n\n")
	played := ""
	if !c.NoDemo {
		demo, cancel := context.WithTimeout(ctx, demoTimeout)
		defer cancel()
		if played, err = playDemo(demo, out, registry.All()[standard.Name], info, c.Data); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the demo failed: %w", err)
		}
		if err := playFlows(demo, out, info); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the demo's sharing and refund failed: %w", err)
		}
	}
	fmt.Fprintf(out, "  API            %s\n", info.HTTP)
	fmt.Fprintf(out, "  console        %s (asks for the API key)\n", info.Console)
	fmt.Fprintf(out, "  Temporal UI    %s\n", info.TemporalUI)
	fmt.Fprintf(out, "  acquirers      %s (simulated: a button pays what was announced)\n", info.Simulator)
	fmt.Fprintf(out, "  settings       %s (API key, secrets, database)\n", filepath.Join(c.Data, devInfoName))
	if played != "" {
		fmt.Fprintf(out, "  once more      go run ./cmd/paylatch send --data %q --channel standard --account %s --out-trade-no %s --amount %d --times 3\n                 (the same callback again: nothing moves)\n",
			c.Data, demoAccount, played, demoAmount)
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "Ctrl-C stops everything; the state is kept.\n")
	return nil
}

const demoTimeout = time.Minute

var errNoDev = errors.New("no paylatch dev has run there")

func readDevInfo(data string) (devInfo, error) {
	var info devInfo
	text, err := os.ReadFile(filepath.Join(data, devInfoName))
	if errors.Is(err, os.ErrNotExist) {
		return info, fmt.Errorf("%s: %w: start one with paylatch dev --data %s", data, errNoDev, strconv.Quote(data))
	}
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("read %s: %w", devInfoName, err)
	}
	return info, nil
}
