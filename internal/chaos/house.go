package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/migrations"
	"github.com/paylatch/paylatch/workflows"
)

// house is everything that runs: two servers, two APIs and two workers, and an external participant.
type house struct {
	dir      string
	postgres *devstack.Postgres
	temporal *devstack.Temporal
	// engine reads all tenants: for the set-up and the comparison, not while servers are struck.
	engine      *pgxpool.Pool
	processes   []*process
	servers     map[target]server
	bases       []string // of the APIs
	participant *httptest.Server
	acquirers   *acquirers
	tell        func(format string, args ...any)
}

// openHouse starts the servers, migrates, and starts the processes. Whatever it started before an error is in the house.
func openHouse(ctx context.Context, o Options, r *Record, tell func(string, ...any)) (*house, error) {
	h := &house{dir: o.Dir, servers: map[target]server{}, tell: tell}
	starting, startCtx := errgroup.WithContext(ctx)
	starting.Go(func() (err error) {
		h.postgres, err = devstack.StartPostgres(startCtx, devstack.PostgresOptions{Dir: filepath.Join(o.Dir, "postgres")})
		return err
	})
	starting.Go(func() (err error) {
		h.temporal, err = devstack.StartTemporal(startCtx, devstack.TemporalOptions{
			Dir: filepath.Join(o.Dir, "temporal"), Headless: true, SearchAttributes: workflows.SearchAttributes(),
		})
		return err
	})
	if err := starting.Wait(); err != nil {
		return h, err
	}
	h.servers[target{PostgreSQL, 1}] = postgres{h.postgres}
	h.servers[target{Temporal, 1}] = h.temporal
	if _, err := migrations.Up(ctx, h.postgres.URL()); err != nil {
		return h, err
	}
	engineURL, err := database.AsRole(h.postgres.URL(), database.RoleEngine)
	if err != nil {
		return h, err
	}
	apiURL, err := database.AsRole(h.postgres.URL(), database.RoleAPI)
	if err != nil {
		return h, err
	}
	if h.engine, err = database.Open(engineURL, 4); err != nil {
		return h, err
	}
	masterKey := sealed.NewKey()
	keyFile := filepath.Join(o.Dir, "master.key")
	if err := os.WriteFile(keyFile, []byte(masterKey+"\n"), 0o600); err != nil {
		return h, fmt.Errorf("write the master key: %w", err)
	}
	h.acquirers = newAcquirers()
	h.acquirers.balance(func() []string { return h.bases })
	env := append(cleanEnvironment(),
		"PAYLATCH_PUBLIC_URL="+h.acquirers.balancer.URL,
		"PAYLATCH_DATABASE_URL="+engineURL, "PAYLATCH_API_DATABASE_URL="+apiURL, "PAYLATCH_MASTER_KEY_FILE="+keyFile,
		"PAYLATCH_DATABASE_CONNECTIONS=12", "PAYLATCH_REDRIVE_AFTER="+o.RedriveAfter.String(), "TEMPORAL_ADDRESS="+h.temporal.Address(),
	)
	if err := h.startProcesses(ctx, o.Program, env); err != nil {
		return h, err
	}
	return h, h.furnish(ctx, r, masterKey)
}

// cleanEnvironment is ours without what would lead the processes to other servers.
func cleanEnvironment() (env []string) {
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TEMPORAL_") && (!strings.HasPrefix(pair, "PAYLATCH_") || strings.HasPrefix(pair, "PAYLATCH_TEST_")) {
			env = append(env, pair)
		}
	}
	return env
}

func (h *house) startProcesses(ctx context.Context, program string, env []string) error {
	add := func(part Part, instance int, arguments ...string) error {
		name := fmt.Sprintf("%s-%d", part, instance)
		p := &process{
			name: name, logFile: filepath.Join(h.dir, name+".log"), tell: h.tell,
			command: func(output *os.File) *exec.Cmd {
				cmd := exec.Command(program, arguments...)
				cmd.Env = env
				cmd.Stdout, cmd.Stderr = output, output
				return cmd
			},
		}
		h.processes = append(h.processes, p)
		h.servers[target{part, instance}] = p
		return p.Start(ctx)
	}
	for i := range API.instances() {
		address, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		h.bases = append(h.bases, "http://"+address)
		if err := add(API, i+1, "serve", "--http", address); err != nil {
			return err
		}
	}
	for i := range Worker.instances() {
		if err := add(Worker, i+1, "worker"); err != nil {
			return err
		}
	}
	return h.ready(ctx)
}

// freeAddress finds a port that a process can have now and after each restart.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// ready waits until every API can store and credit.
func (h *house) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	for _, base := range h.bases {
		c := newCaller([]string{base})
		defer c.close()
		if !insist(ctx, func() bool { return c.send(ctx, http.MethodGet, "/readyz", nil, nil).status == http.StatusOK }) {
			return fmt.Errorf("the API at %s is not ready: see the logs in %s", base, h.dir)
		}
	}
	return nil
}

// merchants is how many tenants there are.
const merchants = 3

// furnish makes the tenants, their accounts at the channels, and the external participant.
func (h *house) furnish(ctx context.Context, r *Record, masterKey string) error {
	box, err := sealed.New(masterKey)
	if err != nil {
		return err
	}
	h.participant = httptest.NewServer(participant{r})
	accounts := tenant.NewAccounts(h.engine, registry.All(), box)
	participants := transfer.NewService(h.engine, box, nil, zap.NewNop(), nil)
	for i := range merchants {
		m := &Merchant{Tenant: fmt.Sprintf("shop-%d", i+1), Account: fmt.Sprintf("shop-%d", i+1), Secret: newSecret()}
		if m.APIKey, err = tenant.Add(ctx, h.engine, m.Tenant, currency); err != nil {
			return err
		}
		if err := accounts.Add(ctx, m.Tenant, standard.Name, m.Account, toJSON(standard.Config{Secrets: []string{m.Secret}})); err != nil {
			return err
		}
		sim := h.acquirers.give(m, i)
		if err := accounts.Add(ctx, m.Tenant, sim.Name(), m.Acquirer, sim.Config(h.acquirers.servers[i].URL)); err != nil {
			return err
		}
		config := toJSON(transfer.ParticipantConfig{
			TryURL: h.participant.URL + "/try", ConfirmURL: h.participant.URL + "/confirm", CancelURL: h.participant.URL + "/cancel", Secret: newSecret(),
		})
		if err := participants.PutParticipant(ctx, m.Tenant, participantName, config); err != nil {
			return err
		}
		r.Merchants = append(r.Merchants, m)
	}
	return nil
}

// newSecret makes a secret after Standard Webhooks.
func newSecret() string { return "whsec_" + sealed.NewKey() }

// signStandard signs a body of the channel standard.
func signStandard(secret string, body []byte, at time.Time) (map[string][]string, error) {
	return standard.Sign(secret, "msg", at, body)
}

func toJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only plain structs come here
	}
	return text
}

// endsByItself lists the processes that ended though nobody asked them to.
func (h *house) endsByItself() (list []string) {
	for _, p := range h.processes {
		for _, end := range p.endsByItself() {
			list = append(list, p.name+": "+end)
		}
	}
	return list
}

// close ends everything. The data goes too, unless it shall be kept.
func (h *house) close(keep bool) error {
	for _, p := range h.processes {
		_ = p.Kill() // there is nothing left that an orderly end would save
		p.watched.Wait()
	}
	h.acquirers.close()
	if h.participant != nil {
		h.participant.Close()
	}
	if h.engine != nil {
		h.engine.Close()
	}
	var errs []error
	if h.temporal != nil {
		errs = append(errs, h.temporal.Kill())
	}
	if h.postgres != nil && keep { // it can be looked into
		errs = append(errs, h.postgres.Stop())
	}
	if h.postgres != nil && !keep {
		errs = append(errs, h.postgres.Remove())
	}
	return errors.Join(errs...)
}
