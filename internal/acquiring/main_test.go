package acquiring_test

import (
	"os"
	"testing"

	"github.com/paylatch/paylatch/internal/devstack"
)

func TestMain(m *testing.M) {
	os.Exit(devstack.Main(m, devstack.Needs{Postgres: true}))
}
