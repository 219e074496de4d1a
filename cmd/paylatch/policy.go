package main

import (
	"context"
	"fmt"
	"time"

	"github.com/paylatch/paylatch/internal/receivable"
	"github.com/paylatch/paylatch/internal/refund"
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

type tenantSettle struct {
	databaseFlags
	Name   string `arg:"" help:"The tenant."`
	Refund string `required:"" help:"The out_refund_no of which the merchant owes something."`
	How    string `required:"" help:"balance takes it from the merchant's account, outside says that it was paid in another way, written_off gives it up." enum:"balance,outside,written_off"`
	Reason string `required:"" help:"Why; it stays on record."`
}

func (c *tenantSettle) Run(ctx context.Context) error {
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	r, err := refund.Settle(byCommand(ctx), db, c.Name, c.Refund, receivable.How(c.How), c.Reason, time.Now())
	if err != nil {
		return err
	}
	fmt.Printf("refund %s: receivable %d, owed %d\n", r.OutRefundNo, r.Receivable, r.Owed())
	return nil
}
