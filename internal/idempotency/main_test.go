package idempotency_test

import (
	"os"
	"testing"

	"github.com/paylatch/paylatch/internal/devstack"
)

func TestMain(m *testing.M) {
	if point := os.Getenv(childPoint); point != "" {
		os.Exit(runChild(point))
	}
	os.Exit(devstack.Main(m, devstack.Needs{Postgres: true}))
}
