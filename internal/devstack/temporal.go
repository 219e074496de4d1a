package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// TemporalOptions says which Temporal to use.
type TemporalOptions struct {
	Address          string            // a given server, host:port; nothing is started or stopped then
	Dir              string            // holds temporal.db and the log; survives restarts; "" keeps all in memory
	Port, UIPort     int               // TCP ports on 127.0.0.1; 0 picks free ones
	Headless         bool              // without the web UI
	Namespace        string            // default "default"
	SearchAttributes map[string]string // name to type ("Keyword", "Int", …), registered if missing
	Progress         io.Writer         // lines for people; nil for none
}

// Temporal is a Temporal server that takes calls, until it is stopped.
type Temporal struct {
	address string
	uiURL   string
	options TemporalOptions
	server  *supervisor // nil for a given server

	// life lets one of Start, Stop and Kill run at a time; it guards unlock.
	life   sync.Mutex
	unlock func()
}

var errGivenTemporal = errors.New("the Temporal in use was given by its address, so it is not ours to crash")

// StartTemporal gives a Temporal server that takes calls and knows o.SearchAttributes: the one at o.Address if set,
// else a dev server of our own. ctx bounds the start only. Errors are sentences for the person at the terminal.
func StartTemporal(ctx context.Context, o TemporalOptions) (*Temporal, error) {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if err := checkSearchAttributes(o.SearchAttributes); err != nil {
		return nil, err
	}
	if o.Address != "" {
		t := &Temporal{address: o.Address, options: o}
		if err := pingTemporal(ctx, o.Address, o.Namespace, o.SearchAttributes); err != nil {
			return nil, fmt.Errorf("reaching the Temporal given by its address %s: %w", o.Address, err)
		}
		return t, nil
	}
	file, err := obtainTemporal(ctx, progress{o.Progress})
	if err != nil {
		return nil, err
	}
	// A port that was free may be taken a moment later, so picked ones may be picked again.
	for attempt := 1; ; attempt++ {
		t, err := startDevServer(ctx, file, o)
		if err == nil {
			return t, nil
		}
		if o.Port != 0 || attempt == 3 || !errors.Is(err, errEnded) {
			return nil, err
		}
	}
}

func startDevServer(ctx context.Context, file string, o TemporalOptions) (*Temporal, error) {
	say := progress{o.Progress}
	if o.Dir != "" {
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return nil, fmt.Errorf("resolving the data directory: %w", err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("making the data directory: %w", err)
		}
		o.Dir = dir
	}
	t := &Temporal{options: o}
	unlock, err := t.lock(ctx, say)
	if err != nil {
		return nil, err
	}
	if t.options, err = o.withPorts(); err != nil {
		unlock()
		return nil, err
	}
	t.address = localAddress(t.options.Port)
	t.server = t.supervisor(file, say)

	say.line("starting Temporal from %s on port %d", file, t.options.Port)
	if err := t.server.start(ctx); err != nil {
		unlock()
		return nil, err
	}
	t.unlock = unlock
	if !o.Headless {
		t.uiURL = "http://" + localAddress(t.options.UIPort)
	}
	return t, nil
}

// withPorts settles the ports that were left open and checks the others.
func (o TemporalOptions) withPorts() (TemporalOptions, error) {
	var err error
	if o.Port, err = choosePort(o.Port, "choose another with --temporal-port"); err != nil {
		return o, fmt.Errorf("starting Temporal: %w", err)
	}
	if o.Headless {
		return o, nil
	}
	if o.UIPort, err = choosePort(o.UIPort, "choose another with --ui-port"); err != nil {
		return o, fmt.Errorf("starting the Temporal UI: %w", err)
	}
	return o, nil
}

// Address is host:port of the gRPC service.
func (t *Temporal) Address() string { return t.address }

// UIURL is the address of the web UI, "" without one and for a given server.
func (t *Temporal) UIURL() string { return t.uiURL }

// Given says that the server was given by its address: it cannot be crashed.
func (t *Temporal) Given() bool { return t.server == nil }

// Start starts the server again after Stop or Kill, on the same ports and data, and returns once it takes calls. A
// server in memory starts empty, but for its search attributes.
func (t *Temporal) Start(ctx context.Context) error {
	if t.Given() {
		return nil
	}
	t.life.Lock()
	defer t.life.Unlock()
	if t.unlock != nil {
		return t.server.start(ctx)
	}
	unlock, err := t.lock(ctx, t.server.say)
	if err != nil {
		return err
	}
	_, err = t.options.withPorts()
	if err == nil {
		err = t.server.start(ctx)
	}
	if err != nil {
		unlock()
		return err
	}
	t.unlock = unlock
	return nil
}

// Stop ends the server in order and returns once it has ended. It does nothing to a server that was given or is not
// running.
func (t *Temporal) Stop() error { return t.end((*supervisor).stop) }

// Kill ends the server as a crash would. It is not started again until Start.
func (t *Temporal) Kill() error {
	if t.Given() {
		return errGivenTemporal
	}
	return t.end((*supervisor).kill)
}

func (t *Temporal) end(how func(*supervisor)) error {
	if t.Given() {
		return nil
	}
	t.life.Lock()
	defer t.life.Unlock()
	if t.unlock == nil {
		return nil
	}
	// A paused process acts on no signal but SIGKILL.
	if pid := t.server.pid(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	how(t.server)
	t.unlock()
	t.unlock = nil
	return nil
}

// lock takes the data directory for this process and ends what an earlier one left running on it. A server in memory
// has nothing to lock.
func (t *Temporal) lock(ctx context.Context, say progress) (unlock func(), err error) {
	if t.options.Dir == "" {
		return func() {}, nil
	}
	unlock, err = lock(filepath.Join(t.options.Dir, "temporal.lock"))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("the Temporal data in %s is in use by another paylatch: stop that one, or choose another "+
			"directory with --data", t.options.Dir)
	}
	if err != nil {
		return nil, err
	}
	if err := stopLeftOver(ctx, t.pidFile(), t.options.database(), syscall.SIGTERM, say); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func (o TemporalOptions) database() string { return filepath.Join(o.Dir, "temporal.db") }

func (t *Temporal) pidFile() string { return filepath.Join(t.options.Dir, "temporal.pid") }

func (t *Temporal) supervisor(file string, say progress) *supervisor {
	s := &supervisor{
		name: "Temporal",
		command: func(output *os.File) *exec.Cmd {
			cmd := exec.Command(file, t.options.arguments()...)
			cmd.Stdout, cmd.Stderr = output, output
			return cmd
		},
		ready:    t.ready,
		within:   time.Minute,
		openLog:  openScratchLog,
		orphaned: syscall.SIGTERM,
		stopping: []step{{syscall.SIGTERM, 15 * time.Second}},
		say:      say,
	}
	if t.options.Dir != "" {
		s.openLog = func() (*os.File, error) { return openLog(filepath.Join(t.options.Dir, "temporal.log")) }
		s.pidFile = t.pidFile()
	}
	return s
}

// arguments are the dev server's command line.
func (o TemporalOptions) arguments() []string {
	arguments := []string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(o.Port),
		"--log-level", "warn", "--log-format", "text",
		// It would ask the vendor for newer versions.
		"--dynamic-config-value", "frontend.enableServerVersionCheck=false",
		// With the usual four partitions of a task queue and few pollers, tasks wait seconds in one that nobody polls.
		"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1",
		"--dynamic-config-value", "matching.numTaskqueueWritePartitions=1",
	}
	if o.Namespace != "default" { // which the dev server always has
		arguments = append(arguments, "--namespace", o.Namespace)
	}
	if o.Headless {
		arguments = append(arguments, "--headless")
	} else {
		arguments = append(arguments, "--ui-ip", "127.0.0.1", "--ui-port", strconv.Itoa(o.UIPort))
	}
	if o.Dir != "" {
		// A killed server loses nothing this way. A power failure may take the last moments of workflow history, which
		// the product redoes from PostgreSQL.
		arguments = append(arguments, "--db-filename", o.database(),
			"--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL")
	}
	for _, name := range slices.Sorted(maps.Keys(o.SearchAttributes)) {
		arguments = append(arguments, "--search-attribute", name+"="+o.SearchAttributes[name])
	}
	return arguments
}

// ready asks the service, and the UI if there is one, once.
func (t *Temporal) ready(ctx context.Context) error {
	addresses := []string{t.address}
	if !t.options.Headless {
		addresses = append(addresses, localAddress(t.options.UIPort))
	}
	// A refused connection costs the gRPC client a second; asking the port first costs nothing.
	for _, address := range addresses {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
	return pingTemporal(ctx, t.address, t.options.Namespace, t.options.SearchAttributes)
}
