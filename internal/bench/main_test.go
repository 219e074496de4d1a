package bench

import (
	"os"
	"testing"

	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/workflows"
)

func TestMain(m *testing.M) {
	os.Exit(devstack.Main(m, devstack.Needs{Postgres: true, Temporal: true, SearchAttributes: workflows.SearchAttributes()}))
}
