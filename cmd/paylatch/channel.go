package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/tenant"
)

type channelCommand struct {
	Add   channelAdd   `cmd:"" help:"Add a tenant's account at a channel; it takes effect at once."`
	Check channelCheck `cmd:"" help:"Try an account's keys and the way to its channel, and say what is wrong; exit 1 where something is."`
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
	ctx = byCommand(ctx)
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

type channelCheck struct {
	engineFlags
	Channel string `help:"The channel, such as wechatpay." required:""`
	Account string `help:"The account's name in the callback URL." required:""`
}

// checkTimeout bounds a check: it makes a few calls.
const checkTimeout = time.Minute

func (c *channelCheck) Run(ctx context.Context) error {
	db, box, err := c.openWithKey()
	if err != nil {
		return err
	}
	defer db.Close()
	acct, err := tenant.NewAccounts(db, registry.All(), box).Find(ctx, c.Channel, c.Account)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return checkAccount(ctx, os.Stdout, acct)
}

// checkAccount prints what a check of an account found. That its configuration opens is the first finding: it is checked
// when it is stored.
func checkAccount(ctx context.Context, out io.Writer, acct tenant.Account) error {
	findings := []channel.Finding{{OK: true, What: "configuration", Detail: "it opens; the channel knows the account as " + acct.Identity()}}
	if a, ok := acct.Account.(channel.Acquirer); ok {
		findings = append(findings, a.Check(ctx)...)
	} else {
		findings = append(findings, channel.Finding{OK: true, What: "outgoing calls", Detail: "this channel has none: its orders are not announced"})
	}
	wrong := 0
	for _, f := range findings {
		mark := "ok   "
		if !f.OK {
			mark = "WRONG"
			wrong++
		}
		fmt.Fprintf(out, "%s  %s: %s\n", mark, f.What, f.Detail)
	}
	if wrong > 0 {
		fmt.Fprintf(out, "%d of %d is not right\n", wrong, len(findings))
		return errReported
	}
	return nil
}
