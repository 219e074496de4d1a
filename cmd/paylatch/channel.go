package main

import (
	"context"
	"fmt"
	"os"

	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/tenant"
)

type channelCommand struct {
	Add channelAdd `cmd:"" help:"Add a tenant's account at a channel; it takes effect at once."`
}

type channelAdd struct {
	engineFlags
	Tenant  string `help:"The tenant whose account it is." required:""`
	Channel string `help:"The channel, such as standard." required:""`
	Account string `help:"The account's name in the callback URL /callbacks/{channel}/{account}." required:""`
	Config  string `help:"File with the account's configuration in JSON." required:"" type:"existingfile" placeholder:"FILE"`
	Replace bool   `help:"Give an account that exists a new configuration: rotate its keys."`
}

func (c *channelAdd) Run(ctx context.Context) error {
	config, err := os.ReadFile(c.Config)
	if err != nil {
		return err
	}
	db, box, err := c.openWithKey()
	if err != nil {
		return err
	}
	defer db.Close()
	accounts := tenant.NewAccounts(db, registry.All(), box)
	if c.Replace {
		err = accounts.Replace(ctx, c.Tenant, c.Channel, c.Account, config)
	} else {
		err = accounts.Add(ctx, c.Tenant, c.Channel, c.Account, config)
	}
	if err != nil {
		return err
	}
	fmt.Printf("Give the channel this callback path: /callbacks/%s/%s\n", c.Channel, c.Account)
	return nil
}
