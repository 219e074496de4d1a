package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/paylatch/paylatch/internal/chaos"
	"github.com/paylatch/paylatch/internal/devstack"
)

type chaosCommand struct {
	For          time.Duration `help:"How long load is played and servers are struck, 10s to 24h." default:"75s" placeholder:"DURATION"`
	Seed         *uint64       `help:"What the plan and the load are drawn from; a random one without."`
	Rate         float64       `help:"Scenes begun per second, 0.1 to 100; a scene is an order or a transfer with all that is sent about it." default:"10"`
	RedriveAfter time.Duration `help:"The deadline that API and workers are given; see serve --redrive-after." default:"5s"`
	Dir          string        `help:"Keep data and logs in this new directory, whatever comes out; without, one that goes when nothing was found." placeholder:"DIR"`
	JSON         string        `help:"Write the report to this file." name:"json" placeholder:"FILE"`
	Plan         bool          `help:"Print the plan of the seed and end."`
	Open         string        `help:"Play nothing: start PostgreSQL and Temporal with its UI on the data that an earlier run left, until Ctrl-C." type:"existingdir" placeholder:"DIR"`
}

// Times after the load: as long as senders insist, and until nothing moves any more.
const (
	chaosDrain = time.Minute
	chaosQuiet = 2 * time.Minute
)

func (c *chaosCommand) Validate() error {
	if c.For < 10*time.Second || c.For > 24*time.Hour || c.Rate < 0.1 || c.Rate > 100 {
		return errors.New("--for is 10s to 24h and --rate 0.1 to 100")
	}
	return planFlags{c.RedriveAfter}.valid()
}

func (c *chaosCommand) Run(ctx context.Context) error {
	seed := rand.Uint64N(1 << 32) // short enough to be typed again
	if c.Seed != nil {
		seed = *c.Seed
	}
	if c.Plan {
		for _, round := range chaos.NewPlan(seed, c.For) {
			fmt.Println(round)
		}
		return nil
	}
	if c.Open != "" {
		return c.open(ctx)
	}
	dir, err := c.directory()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	repeat := fmt.Sprintf("paylatch chaos --for %s --seed %d --rate %g --redrive-after %s", c.For, seed, c.Rate, c.RedriveAfter)
	fmt.Printf("%s\n\n", repeat)
	outcome, err := chaos.Run(ctx, chaos.Options{
		Seed: seed, Length: c.For, Rate: c.Rate, Dir: dir, Keep: c.Dir != "", Program: self, RedriveAfter: c.RedriveAfter,
		Drain: chaosDrain, Quiet: chaosQuiet, Progress: os.Stdout,
	})
	if outcome != nil {
		outcome.Print(os.Stdout)
		if c.JSON != "" {
			err = errors.Join(err, os.WriteFile(c.JSON, toJSON(outcome), 0o644))
		}
	}
	if err == nil && outcome.Passed() || ctx.Err() != nil {
		if c.Dir == "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	}
	fmt.Fprintf(os.Stderr, "\nrepeat it:  %s\nlogs, record and data:  %s (paylatch chaos --open %s)\n", repeat, dir, dir)
	if err != nil {
		return err
	}
	return errReported
}

// directory makes the one that holds data and logs. Others may pass through it: PostgreSQL does not run as root.
func (c *chaosCommand) directory() (string, error) {
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "paylatch-chaos-")
		if err != nil {
			return "", fmt.Errorf("make a directory: %w", err)
		}
		return dir, os.Chmod(dir, 0o711)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return "", fmt.Errorf("make the directory: %w", err)
	}
	return dir, nil
}

// open lets people look at what a run left: nothing works on it.
func (c *chaosCommand) open(ctx context.Context) (err error) {
	postgres, err := devstack.StartPostgres(ctx, devstack.PostgresOptions{Dir: filepath.Join(c.Open, "postgres"), Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Stop()) }()
	temporal, err := devstack.StartTemporal(ctx, devstack.TemporalOptions{Dir: filepath.Join(c.Open, "temporal"), Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temporal.Stop()) }()
	info := devInfo{Temporal: temporal.Address(), TemporalUI: temporal.UIURL()}
	if err := info.setDatabases(postgres.URL()); err != nil {
		return err
	}
	settings := filepath.Join(c.Open, devInfoName)
	if err := writeSecret(settings, toJSON(info)); err != nil {
		return fmt.Errorf("write %s: %w", devInfoName, err)
	}
	fmt.Printf("database     owner_database_url in %s (paylatch verify --data %s)\nTemporal UI  %s\nCtrl-C stops both; the data stays.\n", settings, c.Open, info.TemporalUI)
	<-ctx.Done()
	return nil
}
