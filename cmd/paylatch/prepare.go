package main

import (
	"context"
	"os"

	"github.com/paylatch/paylatch/internal/devstack"
)

type prepareCommand struct{}

func (*prepareCommand) Run(ctx context.Context) error { return devstack.Prepare(ctx, os.Stderr) }
