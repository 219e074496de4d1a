package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/migrations"
)

type migrateCommand struct {
	Up     migrateUp     `cmd:"" help:"Apply what is missing."`
	Status migrateStatus `cmd:"" help:"List the migrations and whether the database has them."`
}

type ownerFlags struct {
	dataFlag
	OwnerDatabaseURL string `help:"PostgreSQL as the owner of the schema, who may create roles." name:"owner-database-url" env:"PAYLATCH_OWNER_DATABASE_URL" placeholder:"URL"`
}

func (f ownerFlags) url() (string, error) {
	dev, err := f.dev()
	if err != nil {
		return "", err
	}
	url := firstOf(f.OwnerDatabaseURL, dev.OwnerDatabaseURL)
	if url == "" {
		return "", errors.New("no database: set PAYLATCH_OWNER_DATABASE_URL, or --data to use a running paylatch dev")
	}
	return url, nil
}

type migrateUp struct{ ownerFlags }

// Run also gives the two roles their passwords where the environment names them, so that a deployment needs no SQL.
func (c *migrateUp) Run(ctx context.Context) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	applied, err := migrations.Up(ctx, url)
	for _, m := range applied {
		fmt.Println("applied", m.Name)
	}
	if err != nil {
		return err
	}
	if len(applied) == 0 {
		fmt.Println("the schema is up to date")
	}
	return letRolesIn(ctx, url)
}

func letRolesIn(ctx context.Context, url string) error {
	for role, variable := range map[string]string{database.RoleAPI: "PAYLATCH_API_PASSWORD", database.RoleEngine: "PAYLATCH_ENGINE_PASSWORD"} {
		password := os.Getenv(variable)
		if password == "" {
			continue
		}
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return fmt.Errorf("connect as the owner: %w", err)
		}
		// ALTER ROLE takes no parameters; the literal is quoted by the SQL standard's rule.
		_, err = conn.Exec(ctx, "ALTER ROLE "+role+" LOGIN PASSWORD '"+strings.ReplaceAll(password, "'", "''")+"'")
		closeErr := conn.Close(ctx)
		if err != nil {
			return fmt.Errorf("set the password of %s: %w", role, err)
		}
		if closeErr != nil {
			return closeErr
		}
		fmt.Println("role", role, "may log in")
	}
	return nil
}

type migrateStatus struct{ ownerFlags }

func (c *migrateStatus) Run(ctx context.Context) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	states, err := migrations.Status(ctx, url)
	if err != nil {
		return err
	}
	pending := 0
	for _, s := range states {
		mark := "applied"
		if !s.Applied {
			mark = "pending"
			pending++
		}
		fmt.Printf("%s  %s\n", mark, s.Name)
	}
	if pending > 0 {
		fmt.Printf("%d pending: run paylatch migrate up\n", pending)
	}
	return nil
}
