package main

import (
	"context"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/transfer"
)

type participantCommand struct {
	Put participantPut `cmd:"" help:"Register an external participant of transfers, or give it a new configuration."`
}

type participantPut struct {
	engineFlags
	Tenant string `help:"The tenant whose transfers may name it." required:""`
	Name   string `help:"The name that transfers use." required:""`
	Config string `help:"File with try_url, confirm_url, cancel_url and secret in JSON." required:"" type:"existingfile" placeholder:"FILE"`
}

func (c *participantPut) Run(ctx context.Context) error {
	config, err := os.ReadFile(c.Config)
	if err != nil {
		return err
	}
	ctx = byCommand(ctx)
	db, box, err := c.openWithKey()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := transfer.NewService(db, box, nil, zap.NewNop(), nil).PutParticipant(ctx, c.Tenant, c.Name, config); err != nil {
		return err
	}
	fmt.Printf("Transfers of %s may name participant %s now.\n", c.Tenant, c.Name)
	return nil
}
