package main

import (
	"context"
	"fmt"

	"github.com/paylatch/paylatch/internal/tenant"
)

type tenantPolicy struct {
	databaseFlags
	Name            string `arg:"" help:"The tenant."`
	SuspenseRefund  string `help:"Money in suspense that comes from now on: operator waits for a person, automatic gives it back once its channel says that it was paid." enum:"operator,automatic,unchanged" default:"unchanged"`
	RefundShortfall string `help:"A refund for which the merchant has too little: refuse, or allow_receivable." enum:"refuse,allow_receivable,unchanged" default:"unchanged"`
	RefundOfShared  string `help:"A refund of a payment that was shared: return takes the receivers' parts back first, receivable lets the merchant pay and the receivers owe." enum:"return,receivable,unchanged" default:"unchanged"`
}

func (c *tenantPolicy) Run(ctx context.Context) error {
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	var change tenant.Policy
	if c.SuspenseRefund != "unchanged" {
		change.SuspenseRefund = c.SuspenseRefund
	}
	if c.RefundShortfall != "unchanged" {
		change.RefundShortfall = c.RefundShortfall
	}
	if c.RefundOfShared != "unchanged" {
		change.RefundOfShared = c.RefundOfShared
	}
	if change != (tenant.Policy{}) {
		if err := tenant.SetPolicy(byCommand(ctx), db, c.Name, change); err != nil {
			return err
		}
	}
	p, err := tenant.PolicyOf(ctx, db, c.Name)
	if err != nil {
		return err
	}
	fmt.Printf("suspense_refund   %s\nrefund_shortfall  %s\nrefund_of_shared  %s\n", p.SuspenseRefund, p.RefundShortfall, p.RefundOfShared)
	return nil
}
