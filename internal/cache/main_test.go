package cache_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paylatch/paylatch/internal/devstack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startRedis gives a test its own Redis.
func startRedis(t *testing.T) *devstack.Redis {
	t.Helper()
	r, err := devstack.StartRedis(t.Context())
	if errors.Is(err, devstack.ErrNoRedis) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(r.Kill)
	return r
}
