package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	"github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
)

type simulateCommand struct {
	Run       simulateRun       `cmd:"" help:"Run a simulator of each acquirer on loopback; paylatch dev does it too."`
	Pay       simulatePay       `cmd:"" help:"Let the payer pay an order that was announced."`
	Misbehave simulateMisbehave `cmd:"" help:"Say how a simulator misbehaves from now on; {} is not at all."`
}

// simulated is a running set of simulators, each on a port of its own, and their control page.
type simulated struct {
	list    []simulator.Simulator
	configs map[string]json.RawMessage
	// control is the page's URL.
	control   string
	listeners map[net.Listener]http.Handler
}

// newSimulated opens the ports: the control page's at address, the channels' at free ones.
func newSimulated(address string) (s *simulated, err error) {
	s = &simulated{
		list:      []simulator.Simulator{wechatpay.New(), alipay.New(), stripe.New()},
		configs:   map[string]json.RawMessage{},
		listeners: map[net.Listener]http.Handler{},
	}
	for _, sim := range s.list {
		base, err := s.listen("127.0.0.1:0", sim.Handler())
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.configs[sim.Name()] = sim.Config(base)
	}
	if s.control, err = s.listen(address, simulator.Control(s.list...)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *simulated) listen(address string, h http.Handler) (base string, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("the simulators cannot listen on %s: %w", address, err)
	}
	s.listeners[listener] = h
	return "http://" + listener.Addr().String(), nil
}

func (s *simulated) close() (err error) {
	for listener := range s.listeners {
		err = errors.Join(err, listener.Close())
	}
	return err
}

// callback tells the channels that take their callback URL in their console where it is.
func (s *simulated) callback(base, account string) {
	for _, sim := range s.list {
		if takes, ok := sim.(interface{ Endpoint(address string) }); ok {
			takes.Endpoint(base + "/callbacks/" + sim.Name() + "/" + account)
		}
	}
}

// serve answers until ctx is done.
func (s *simulated) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for listener, handler := range s.listeners {
		srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		group.Go(func() error {
			if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return srv.Close()
		})
	}
	err := group.Wait()
	for _, sim := range s.list {
		sim.Core().Close()
	}
	return err
}

type simulateRun struct {
	Address  string `help:"Address of the page that pays and of its calls." default:"127.0.0.1:8090" placeholder:"ADDRESS"`
	Configs  string `help:"Directory to write an account's configuration for each channel into (channel add takes them)." default:"." type:"existingdir" placeholder:"DIR"`
	Callback string `help:"Base URL of the paylatch that is called back." default:"http://127.0.0.1:8080" placeholder:"URL"`
	Account  string `help:"The name of the accounts in callback URLs." default:"demo"`
}

func (c *simulateRun) Run(ctx context.Context) error {
	s, err := newSimulated(c.Address)
	if err != nil {
		return err
	}
	s.callback(strings.TrimSuffix(c.Callback, "/"), c.Account)
	for name, config := range s.configs {
		path := filepath.Join(c.Configs, "simulated-"+name+".json")
		if err := writeSecret(path, config); err != nil {
			return errors.Join(fmt.Errorf("write the configuration: %w", err), s.close())
		}
		fmt.Printf("%-10s paylatch channel add --tenant TENANT --channel %s --account %s --config %s\n", name, name, c.Account, path)
	}
	fmt.Printf("The page that pays: %s  (Ctrl-C stops everything; nothing is kept)\n", s.control)
	return s.serve(ctx)
}

// simulatorFlags say where the simulators' page is.
type simulatorFlags struct {
	dataFlag
	Simulator string `help:"Base URL of the simulators' page." env:"PAYLATCH_SIMULATOR" placeholder:"URL"`
	Channel   string `help:"The channel: wechatpay, alipay or stripe." required:""`
}

func (f simulatorFlags) call(ctx context.Context, method, path string, body []byte) error {
	dev, err := f.dev()
	if err != nil {
		return err
	}
	base := firstOf(f.Simulator, dev.Simulator)
	if base == "" {
		return errors.New("no simulators: set PAYLATCH_SIMULATOR, or --data to use those of a running paylatch dev")
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+"/"+url.PathEscape(f.Channel)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("call the simulators: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read the simulators' answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator refused: %s", bytes.TrimSpace(text))
	}
	return nil
}

type simulatePay struct {
	simulatorFlags
	OutTradeNo string `help:"The order that is paid." required:""`
}

func (c *simulatePay) Run(ctx context.Context) error {
	if err := c.call(ctx, http.MethodPost, "/orders/"+url.PathEscape(c.OutTradeNo)+"/pay", nil); err != nil {
		return err
	}
	fmt.Printf("%s is paid at the simulated %s; it calls back now\n", c.OutTradeNo, c.Channel)
	return nil
}

type simulateMisbehave struct {
	simulatorFlags
	Faults string `arg:"" help:"JSON, such as {\"drop\":1}. delay (nanoseconds), refuse, drop, garble (counts), only (a kind of call), hold, notice_times, withhold, reverse, sign_with (old, new, public, wrong, probe)."`
}

func (c *simulateMisbehave) Run(ctx context.Context) error {
	if err := c.call(ctx, http.MethodPut, "/faults", []byte(c.Faults)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "the simulated %s behaves like this now: %s\n", c.Channel, c.Faults)
	return nil
}
