package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/verify"
)

type verifyCommand struct{ databaseFlags }

func (c *verifyCommand) Run(ctx context.Context) error {
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := database.Ready(ctx, db); err != nil {
		return err
	}
	violations, err := verify.Run(ctx, db, time.Now(), func(inv verify.Invariant) {
		fmt.Fprintf(os.Stderr, "checking  %s\n", inv.Rule)
	})
	if err != nil {
		return err
	}
	if len(violations) == 0 {
		fmt.Printf("ok: %d invariants hold\n", len(verify.Invariants()))
		return nil
	}
	for _, v := range violations {
		fmt.Printf("broken  %s: %s\n", v.Invariant, v.What)
	}
	fmt.Fprintf(os.Stderr, "paylatch: %d violations; docs/operations.md says what to do about each\n", len(violations))
	return errReported
}
