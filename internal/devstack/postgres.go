package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresOptions says which PostgreSQL to use.
type PostgresOptions struct {
	URL      string    // a given server; nothing is started, made or stopped then
	Dir      string    // cluster, log and password file live here; survives restarts
	Port     int       // TCP port on 127.0.0.1; 0 picks a free one
	Database string    // created if missing; default "paylatch"
	Progress io.Writer // lines for people, never secrets; nil for none
}

// Postgres is a PostgreSQL server that accepts connections, until it is stopped.
type Postgres struct {
	url     string
	port    int
	cluster *cluster    // nil for a given server
	server  *supervisor // nil for a given server

	// life lets one of Start, Stop, Kill, Pause and Resume run at a time; it guards the rest.
	life   sync.Mutex
	unlock func()
	paused []int
}

var errGivenPostgres = errors.New("the PostgreSQL in use was given by its URL, so it is not ours to crash or pause")

// StartPostgres gives a PostgreSQL that accepts connections: the one at o.URL if set, else a private cluster in o.Dir,
// which is made if it is not there. ctx bounds the start only. Errors are sentences for the person at the terminal.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	if o.URL != "" {
		if err := pingPostgres(ctx, o.URL); err != nil {
			return nil, fmt.Errorf("reaching the PostgreSQL given by its URL: %w", err)
		}
		return &Postgres{url: o.URL}, nil
	}
	if o.Dir == "" {
		return nil, errors.New("starting PostgreSQL: no directory given for its data")
	}
	if o.Database == "" {
		o.Database = "paylatch"
	}
	// A port that was free may be taken a moment later, so a picked one may be picked again.
	for attempt := 1; ; attempt++ {
		p, err := startCluster(ctx, o)
		if err == nil {
			return p, nil
		}
		if o.Port != 0 || attempt == 3 || !errors.Is(err, errEnded) {
			return nil, err
		}
	}
}

func startCluster(ctx context.Context, o PostgresOptions) (_ *Postgres, err error) {
	say := progress{o.Progress}
	c, err := openCluster(o.Dir, say)
	if err != nil {
		return nil, err
	}
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	if err := c.place(); err != nil {
		return nil, err
	}
	major, err := c.major()
	if err != nil {
		return nil, err
	}
	binDir, err := obtainPostgres(ctx, major, say)
	if err != nil {
		return nil, err
	}
	if err := c.stopLeftOver(ctx); err != nil {
		return nil, err
	}
	port, err := choosePort(o.Port, "choose another port")
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	password, err := c.password()
	if err != nil {
		return nil, err
	}
	say.line("starting PostgreSQL from %s on port %d", binDir, port)
	if major == 0 {
		if err := c.create(ctx, binDir, password); err != nil {
			return nil, err
		}
	}

	p := &Postgres{
		url:     clusterURL(port, password, o.Database),
		port:    port,
		cluster: c,
		unlock:  unlock,
	}
	p.server = c.supervisor(binDir, port, clusterURL(port, password, "postgres"))
	if err := p.server.start(ctx); err != nil {
		return nil, err
	}
	if err := createDatabase(ctx, clusterURL(port, password, "postgres"), o.Database); err != nil {
		p.server.stop()
		return nil, err
	}
	return p, nil
}

// URL connects as the superuser, the owner of the private cluster; for a given server it is the given URL. It holds a
// password: do not print it.
func (p *Postgres) URL() string { return p.url }

// Given says that the server was given by its URL: it cannot be crashed, paused or removed.
func (p *Postgres) Given() bool { return p.cluster == nil }

// Start starts the server again after Stop or Kill, on the same port and data, and returns once it accepts connections.
func (p *Postgres) Start(ctx context.Context) error {
	if p.Given() {
		return nil
	}
	p.life.Lock()
	defer p.life.Unlock()
	if p.unlock != nil {
		return p.server.start(ctx)
	}
	unlock, err := p.cluster.lock()
	if err != nil {
		return err
	}
	err = p.cluster.stopLeftOver(ctx)
	if err == nil {
		_, err = choosePort(p.port, "choose another port")
	}
	if err == nil {
		err = p.server.start(ctx)
	}
	if err != nil {
		unlock()
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	p.unlock = unlock
	return nil
}

// Stop ends the server in order: it disconnects clients, writes a checkpoint and returns when the server has ended. It
// does nothing to a server that was given or is not running.
func (p *Postgres) Stop() error { return p.end((*supervisor).stop) }

// Kill ends the server as a crash would, with recovery at the next Start. It is not started again until then.
func (p *Postgres) Kill() error {
	if p.Given() {
		return errGivenPostgres
	}
	return p.end((*supervisor).kill)
}

func (p *Postgres) end(how func(*supervisor)) error {
	if p.Given() {
		return nil
	}
	p.life.Lock()
	defer p.life.Unlock()
	if p.unlock == nil {
		return nil
	}
	// A paused process acts on no signal but SIGKILL.
	resumed := p.resume()
	how(p.server)
	p.unlock()
	p.unlock = nil
	return resumed
}

// Remove stops the server and deletes its data, wherever it was put. It is meant for tests.
func (p *Postgres) Remove() error {
	if p.Given() {
		return nil
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return p.cluster.remove()
}

// lock takes the directory for this process.
func (c *cluster) lock() (unlock func(), err error) {
	unlock, err = lock(filepath.Join(c.dir, "lock"))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("the PostgreSQL data in %s is in use by another paylatch: stop that one, or choose another "+
			"directory with --data", c.dir)
	}
	return unlock, err
}

func (c *cluster) stopLeftOver(ctx context.Context) error {
	return stopLeftOver(ctx, c.pidFile(), c.data, syscall.SIGINT, c.say)
}

// supervisor makes what runs the cluster's server. adminURL connects to a database that is always there.
func (c *cluster) supervisor(binDir string, port int, adminURL string) *supervisor {
	return &supervisor{
		name: "PostgreSQL",
		command: func(output *os.File) *exec.Cmd {
			cmd := exec.Command(filepath.Join(binDir, "postgres"), serverArguments(c.data, port)...)
			cmd.Stdout, cmd.Stderr = output, output
			c.owner.apply(cmd, c.data)
			return cmd
		},
		ready: func(ctx context.Context) error { return pingPostgres(ctx, adminURL) },
		// Crash recovery comes before the first connection and may have much to replay.
		within:   3 * time.Minute,
		openLog:  func() (*os.File, error) { return openLog(c.logFile()) },
		orphaned: syscall.SIGINT,
		stopping: []step{{syscall.SIGINT, time.Minute}, {syscall.SIGQUIT, 10 * time.Second}},
		killing:  []step{{syscall.SIGQUIT, 10 * time.Second}},
		say:      c.say,
	}
}

// serverArguments are the server's settings. On the command line they win over the cluster's own configuration file
// and over ALTER SYSTEM, so an acknowledged commit is on disk whatever those say.
func serverArguments(data string, port int) []string {
	arguments := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1",
		// No sockets: their paths are limited to about 100 bytes, and directories of tests are longer.
		"unix_socket_directories=",
		"fsync=on",
		"synchronous_commit=on",
		"full_page_writes=on",
		"max_connections=200",
		"shared_buffers=128MB",
		"logging_collector=off",
		"log_destination=stderr",
		"log_line_prefix=%m [%p] ",
	} {
		arguments = append(arguments, "-c", setting)
	}
	return arguments
}

func clusterURL(port int, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, password),
		Host:     localAddress(port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// pingPostgres connects once. A refused password is hopeless: asking again will not help.
func pingPostgres(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "28P01" {
			return fmt.Errorf("%w: %w", errHopeless, err)
		}
		return err
	}
	return conn.Close(ctx)
}

func createDatabase(ctx context.Context, adminURL, name string) (err error) {
	conn, err := pgx.Connect(ctx, adminURL)
	if err != nil {
		return fmt.Errorf("connecting to create database %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists); err != nil {
		return fmt.Errorf("looking for database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}
