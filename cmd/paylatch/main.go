// Command paylatch is the payment orchestrator: API, workers and tools in one binary, a file per sub-command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands are the sub-commands. Every flag can be given as the environment variable that its help names; secrets only so.
type commands struct {
	Dev         devCommand         `cmd:"" help:"Run everything on this machine for development: PostgreSQL, Temporal with its UI, API, workers and a demo."`
	Serve       serveCommand       `cmd:"" help:"Run the API: callbacks from channels and the merchants' calls."`
	Worker      workerCommand      `cmd:"" help:"Run the workers of task queues."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the database schema up to date, or show where it is."`
	Tenant      tenantCommand      `cmd:"" help:"Manage tenants."`
	Channel     channelCommand     `cmd:"" help:"Manage channel accounts."`
	Participant participantCommand `cmd:"" help:"Manage external participants of transfers."`
	Send        sendCommand        `cmd:"" help:"Send signed test callbacks, as the channel would."`
	Simulate    simulateCommand    `cmd:"" help:"Simulate the acquirers, which speak their real protocols on loopback."`
	Bench       benchCommand       `cmd:"" help:"Measure, beside the floor that it stands on."`
	Verify      verifyCommand      `cmd:"" help:"Check the invariants of the books; exit 1 and a list where one is broken."`
	Chaos       chaosCommand       `cmd:"" help:"Play load while processes and servers are killed, then compare the books with what was sent; exit 1 where anything is lost or doubled."`
	Prepare     prepareCommand     `cmd:"" help:"Fetch what dev and the tests need on this machine, without starting anything."`
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	// The first interrupt ends the command in good order; a second one ends it at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	parser, err := newParser()
	if err != nil {
		fmt.Fprintln(os.Stderr, "paylatch:", err)
		return 1
	}
	command, err := parser.Parse(args)
	if err != nil {
		parser.FatalIfErrorf(err)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	if err := command.Run(); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "paylatch:", err)
		}
		return 1
	}
	return 0
}

func newParser() (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("paylatch"),
		kong.Description("A payment is reported three times, or a thousand times at once, and credited once."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
}

// errReported is for commands that have said everything already.
var errReported = errors.New("reported")
