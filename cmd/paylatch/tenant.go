package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
)

type tenantCommand struct {
	Add    tenantAdd        `cmd:"" help:"Add a tenant and print its API key, this once, alone on the last line."`
	Key    tenantKeyCommand `cmd:"" help:"Manage a tenant's API keys."`
	Policy tenantPolicy     `cmd:"" help:"Show what a tenant wants to happen by itself, or change it."`
	Settle tenantSettle     `cmd:"" help:"End what is owed for a refund or a sharing: through the merchant's balance, paid in another way, or written off."`
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
	key, err := tenant.Add(byCommand(ctx), db, c.Name, c.Currency)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Tenant %s was added. This is its API key, which may do everything; it is not shown again:\n", c.Name)
	fmt.Println(key)
	return nil
}

type tenantKeyCommand struct {
	Add    tenantKeyAdd    `cmd:"" help:"Make one more API key and print it, this once, alone on the last line; the others stay live."`
	List   tenantKeyList   `cmd:"" help:"List the API keys, newest first; the keys themselves are not kept."`
	Revoke tenantKeyRevoke `cmd:"" help:"End an API key; it takes effect at once."`
}

// tenantKeyFlags say whose keys they are.
type tenantKeyFlags struct {
	databaseFlags
	Tenant string `help:"The tenant whose key it is." required:""`
}

// inTx runs do on the database, on record as done on the command line.
func (f tenantKeyFlags) inTx(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	db, err := f.open()
	if err != nil {
		return err
	}
	defer db.Close()
	ctx = byCommand(ctx)
	return database.InTx(ctx, db, func(tx pgx.Tx) error { return do(ctx, tx) })
}

type tenantKeyAdd struct {
	tenantKeyFlags
	Scopes []string `help:"What it may do, of read, write, refund and admin; admin may do everything." required:"" placeholder:"LIST"`
	Name   string   `help:"What people call it." placeholder:"NAME"`
}

func (c *tenantKeyAdd) Run(ctx context.Context) error {
	scopes, err := tenant.ParseScopes(c.Scopes)
	if err != nil {
		return err
	}
	var apiKey string
	err = c.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		apiKey, _, err = tenant.AddKey(ctx, tx, c.Tenant, c.Name, scopes)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "This is the new API key of tenant %s; it is not shown again:\n", c.Tenant)
	fmt.Println(apiKey)
	return nil
}

type tenantKeyList struct{ tenantKeyFlags }

func (c *tenantKeyList) Run(ctx context.Context) error {
	var keys []tenant.Key
	err := c.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		keys, err = tenant.Keys(ctx, tx, c.Tenant, 0, maxListedKeys)
		return err
	})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREFIX\tNAME\tSCOPES\tCREATED\tLAST USED\tREVOKED")
	for _, k := range keys {
		names := make([]string, len(k.Scopes))
		for i, s := range k.Scopes {
			names[i] = string(s)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Prefix, k.Name, strings.Join(names, ","), when(&k.CreatedAt), when(k.LastUsedAt), when(k.RevokedAt))
	}
	return table.Flush()
}

const maxListedKeys = 1000

func when(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

type tenantKeyRevoke struct {
	tenantKeyFlags
	Key string `arg:"" help:"The key's prefix or id, as the list shows it."`
}

func (c *tenantKeyRevoke) Run(ctx context.Context) error {
	var k tenant.Key
	err := c.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := tenant.FindKey(ctx, tx, c.Tenant, c.Key)
		if err != nil {
			return err
		}
		k, err = tenant.RevokeKey(ctx, tx, c.Tenant, found.ID, false)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("API key %s of tenant %s is revoked since %s.\n", k.Prefix, c.Tenant, when(k.RevokedAt))
	return nil
}

// byCommand gives a context whose changes are on record as the command line's, under the name of its user.
func byCommand(ctx context.Context) context.Context {
	name := "command line"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name += " (" + u.Username + ")"
	}
	return audit.As(ctx, audit.Actor{Name: name})
}
