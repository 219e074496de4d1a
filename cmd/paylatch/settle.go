package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paylatch/paylatch/internal/receivable"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
)

type tenantSettle struct {
	databaseFlags
	Name     string `arg:"" help:"The tenant."`
	Refund   string `required:"" xor:"what" help:"The out_refund_no of which the merchant owes something."`
	Share    string `required:"" xor:"what" help:"The out_order_no of a sharing; with --receiver."`
	Receiver string `help:"The account of the receiver, with --share."`
	Debtor   string `help:"With --share: receiver settles what the receiver owes back, merchant what is owed for its part that was paid after all." enum:"receiver,merchant" default:"receiver"`
	How      string `required:"" help:"balance goes through the merchant's account, outside says that it was paid in another way, written_off gives it up." enum:"balance,outside,written_off"`
	Reason   string `required:"" help:"Why; it stays on record."`
}

// Validate is called by the parser of the command line.
func (c *tenantSettle) Validate() error {
	if (c.Share == "") != (c.Receiver == "") {
		return errors.New("--share and --receiver go together")
	}
	return nil
}

func (c *tenantSettle) Run(ctx context.Context) error {
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	how := receivable.How(c.How)
	if c.Share == "" {
		r, err := refund.Settle(byCommand(ctx), db, c.Name, c.Refund, how, c.Reason, time.Now())
		if err != nil {
			return err
		}
		fmt.Printf("refund %s: receivable %d, owed %d\n", r.OutRefundNo, r.Receivable, r.Owed())
		return nil
	}
	settle := share.SettleReceiver
	if c.Debtor == "merchant" {
		settle = share.SettleLeg
	}
	settled, err := settle(byCommand(ctx), db, c.Name, c.Share, c.Receiver, how, c.Reason, time.Now())
	if err != nil {
		return err
	}
	fmt.Printf("sharing %s, receiver %s: settled %d\n", c.Share, c.Receiver, settled)
	return nil
}
