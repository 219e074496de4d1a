package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/paylatch/paylatch/internal/bench"
)

type benchCommand struct {
	Callbacks  benchCallbacks  `cmd:"" help:"Callbacks accepted and payments credited per second, beside a flow that does nothing."`
	Duplicates benchDuplicates `cmd:"" help:"Duplicates acknowledged per second, beside a handler that only verifies; and whether memory stays flat."`
	Ledger     benchLedger     `cmd:"" help:"Postings per second, beside the same SQL on the same server."`
	Transfers  benchTransfers  `cmd:"" help:"Transfers per second, beside a flow that does nothing."`
	All        benchAll        `cmd:"" help:"All of them, one after another."`
}

// benchFlags are what every benchmark takes. Without a running dev or a database it starts servers of its own.
type benchFlags struct {
	ownerFlags
	Concurrency int    `help:"Callers at once (at most 64)." default:"32"`
	JSON        string `help:"Write the report to this file." name:"json" placeholder:"FILE"`
	Plot        string `help:"Draw latencies, throughput and ratios into this file, as SVG." placeholder:"FILE"`
	Profile     string `help:"Write processor and heap profiles of each benchmark into this directory." placeholder:"DIR"`
}

// timeFlags are for benchmarks whose phases last a time.
type timeFlags struct {
	Seconds float64 `help:"Length of one turn of a phase, 0.1 to 60." default:"4"`
}

func (f timeFlags) length() time.Duration { return time.Duration(f.Seconds * float64(time.Second)) }

// reportFlags are for benchmarks that send callbacks.
type reportFlags struct {
	N       int    `help:"How many orders are paid (at most 100000)." name:"n" default:"2000"`
	Channel string `help:"Whose callbacks are sent: alipay, standard, stripe or wechatpay." default:"standard"`
}

type againFlags struct {
	Duplicates int `help:"How often each callback is sent again at once (at most 100)." default:"0"`
}

type ackFlags struct {
	Acks int `help:"How many duplicates are sent to see whether memory stays flat (at most 10000000)." default:"100000"`
}

type growFlags struct {
	Grow int    `help:"Also compare with a ledger grown to so many entries (at most 10000000)." default:"0"`
	Keep string `help:"Keep the grown ledger in the database of this name, and find it there the next time." placeholder:"NAME"`
}

type benchCallbacks struct {
	benchFlags
	reportFlags
	againFlags
}

// Validate implements kong's check of a command.
func (c *benchCallbacks) Validate() error {
	return errors.Join(c.benchFlags.valid(), c.reportFlags.valid(), c.againFlags.valid())
}

func (c *benchCallbacks) Run(ctx context.Context) error {
	return c.run(ctx, true, bench.Asked{Concurrency: c.Concurrency, N: c.N, Channel: c.Channel, Duplicates: c.Duplicates}, benchmark{"callbacks", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
		return g.callbacks(ctx, c.benchFlags, c.reportFlags, c.againFlags)
	}})
}

type benchDuplicates struct {
	benchFlags
	timeFlags
	reportFlags
	ackFlags
}

// Validate implements kong's check of a command.
func (c *benchDuplicates) Validate() error {
	return errors.Join(c.benchFlags.valid(), c.timeFlags.valid(), c.reportFlags.valid(), c.ackFlags.valid())
}

func (c *benchDuplicates) Run(ctx context.Context) error {
	return c.run(ctx, false, bench.Asked{Concurrency: c.Concurrency, Seconds: c.Seconds, N: c.N, Channel: c.Channel, Acks: c.Acks}, benchmark{"duplicates", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
		return g.duplicates(ctx, c.benchFlags, c.timeFlags, c.reportFlags, c.ackFlags)
	}})
}

type benchLedger struct {
	benchFlags
	timeFlags
	growFlags
}

// Validate implements kong's check of a command.
func (c *benchLedger) Validate() error {
	return errors.Join(c.benchFlags.valid(), c.timeFlags.valid(), c.growFlags.valid())
}

func (c *benchLedger) Run(ctx context.Context) error {
	list := []benchmark{{"ledger", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
		return g.ledger(ctx, c.benchFlags, c.timeFlags)
	}}}
	if c.Grow > 0 {
		list = append(list, benchmark{"growth", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
			return g.growth(ctx, c.benchFlags, c.timeFlags, c.growFlags)
		}})
	}
	return c.run(ctx, false, bench.Asked{Concurrency: c.Concurrency, Seconds: c.Seconds, Grow: c.Grow}, list...)
}

type benchTransfers struct {
	benchFlags
	timeFlags
}

// Validate implements kong's check of a command.
func (c *benchTransfers) Validate() error {
	return errors.Join(c.benchFlags.valid(), c.timeFlags.valid())
}

func (c *benchTransfers) Run(ctx context.Context) error {
	return c.run(ctx, true, bench.Asked{Concurrency: c.Concurrency, Seconds: c.Seconds}, benchmark{"transfers", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
		return g.transfers(ctx, c.benchFlags, c.timeFlags)
	}})
}

type benchAll struct {
	benchFlags
	timeFlags
	reportFlags
	againFlags
	ackFlags
}

// Validate implements kong's check of a command.
func (c *benchAll) Validate() error {
	return errors.Join(c.benchFlags.valid(), c.timeFlags.valid(), c.reportFlags.valid(), c.againFlags.valid(), c.ackFlags.valid())
}

func (c *benchAll) Run(ctx context.Context) error {
	return c.run(ctx, true, bench.Asked{Concurrency: c.Concurrency, Seconds: c.Seconds, N: c.N, Channel: c.Channel, Duplicates: c.Duplicates, Acks: c.Acks},
		benchmark{"callbacks", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
			return g.callbacks(ctx, c.benchFlags, c.reportFlags, c.againFlags)
		}},
		benchmark{"duplicates", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
			return g.duplicates(ctx, c.benchFlags, c.timeFlags, c.reportFlags, c.ackFlags)
		}},
		benchmark{"ledger", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
			return g.ledger(ctx, c.benchFlags, c.timeFlags)
		}},
		benchmark{"transfers", func(ctx context.Context, g *benchGround) (*bench.Report, error) {
			return g.transfers(ctx, c.benchFlags, c.timeFlags)
		}},
	)
}

// valid keeps a run within what one machine can do.
func (f benchFlags) valid() error { return within("--concurrency", f.Concurrency, 1, 64) }

// valid bounds a phase.
func (f timeFlags) valid() error {
	if f.Seconds < 0.1 || f.Seconds > 60 {
		return errors.New("--seconds is 0.1 to 60")
	}
	return nil
}

// valid bounds what is sent.
func (f reportFlags) valid() error {
	_, err := bench.NewReporter(f.Channel)
	return errors.Join(within("--n", f.N, 1, 100_000), err)
}

// valid bounds what is sent again.
func (f againFlags) valid() error { return within("--duplicates", f.Duplicates, 0, 100) }

// valid bounds how many are sent for the memory.
func (f ackFlags) valid() error { return within("--acks", f.Acks, 1, 10_000_000) }

// valid bounds the ledger.
func (f growFlags) valid() error {
	if f.Keep != "" && !strings.HasPrefix(f.Keep, benchPrefix) {
		return errors.New("--keep takes a name that begins with " + benchPrefix)
	}
	return within("--grow", f.Grow, 0, 10_000_000)
}

func within(flag string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s is %d to %d", flag, least, most)
	}
	return nil
}

// benchmark is one of those that a command runs.
type benchmark struct {
	name string
	do   func(ctx context.Context, g *benchGround) (*bench.Report, error)
}

// run measures one benchmark after another, prints what each saw, and writes what was asked for.
func (f benchFlags) run(ctx context.Context, engine bool, asked bench.Asked, list ...benchmark) (err error) {
	ground, err := f.ground(ctx, engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ground.close()) }()
	run, err := bench.NewRun(ctx, ground.owner, ground.client, asked)
	if err != nil {
		return err
	}
	fmt.Fprintln(ground.display, run.Where())
	var reports []*bench.Report
	for _, b := range list {
		fmt.Fprintf(ground.display, "\n%s\n", b.name)
		report, err := f.profiled(ctx, b, ground)
		if err != nil {
			return fmt.Errorf("bench %s: %w", b.name, err)
		}
		report.Print(ground.display)
		fmt.Fprintln(ground.display, "\n  the invariants hold")
		reports = append(reports, report)
	}
	run.End(reports...)
	if f.JSON != "" {
		err = os.WriteFile(f.JSON, toJSON(run), 0o644)
	}
	if f.Plot != "" {
		err = errors.Join(err, writeTo(f.Plot, func(out io.Writer) error { return bench.Plot(out, run.Where(), reports...) }))
	}
	return err
}

// profiled runs a benchmark, under a profile where that was asked for.
func (f benchFlags) profiled(ctx context.Context, b benchmark, g *benchGround) (*bench.Report, error) {
	if f.Profile == "" {
		return b.do(ctx, g)
	}
	if err := os.MkdirAll(f.Profile, 0o755); err != nil {
		return nil, err
	}
	var report *bench.Report
	err := writeTo(filepath.Join(f.Profile, b.name+".cpu.pprof"), func(out io.Writer) (err error) {
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		report, err = b.do(ctx, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	runtime.GC()
	return report, writeTo(filepath.Join(f.Profile, b.name+".heap.pprof"), pprof.WriteHeapProfile)
}

func writeTo(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// benchLog takes what paylatch has to say at the level info, as a running one does, and keeps nothing of it.
func benchLog() *zap.Logger { return zap.New(jsonCore(zapcore.AddSync(io.Discard), zap.InfoLevel)) }
