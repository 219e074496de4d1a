package main

import (
	"context"
	"fmt"
	"os"

	"github.com/paylatch/paylatch/internal/tenant"
)

type tenantCommand struct {
	Add tenantAdd `cmd:"" help:"Add a tenant and print its API key, this once, alone on the last line."`
}

type tenantAdd struct {
	databaseFlags
	Name     string `arg:"" help:"The tenant's name; it becomes part of workflow ids: letters, digits and _-. ."`
	Currency string `help:"The currency of its accounts where a call names none." default:"CNY"`
}

func (c *tenantAdd) Run(ctx context.Context) error {
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	key, err := tenant.Add(ctx, db, c.Name, c.Currency)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Tenant %s was added. This is its API key; it is not shown again:\n", c.Name)
	fmt.Println(key)
	return nil
}
