package tenant_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestMain(m *testing.M) { os.Exit(devstack.Main(m, devstack.Needs{Postgres: true})) }

// watch has the house's accounts listen until the test ends.
func watch(t *testing.T, h *testhouse.House) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { h.Accounts.Watch(ctx, zap.NewNop()) })
	stop = func() { cancel(); watching.Wait() }
	t.Cleanup(stop)
	return stop
}

// verifies tells whether the account that Recent gives takes a message under a secret.
func verifies(t *testing.T, h *testhouse.House, secret string) bool {
	t.Helper()
	acct, err := h.Accounts.Recent(t.Context(), standard.Name, h.Account.Name)
	require.NoError(t, err)
	now := time.Now()
	header, err := standard.Sign(secret, "m", now, []byte("{}"))
	require.NoError(t, err)
	return acct.Verify(channel.Notification{Header: header, Body: []byte("{}"), ReceivedAt: now}) == nil
}

func rotate(t *testing.T, h *testhouse.House) (secret string) {
	t.Helper()
	secret = testhouse.NewSecret()
	config, err := json.Marshal(standard.Config{Secrets: []string{secret}})
	require.NoError(t, err)
	require.NoError(t, h.Accounts.Replace(t.Context(), h.Tenant, standard.Name, h.Account.Name, config))
	return secret
}

func TestWithoutAListenerEveryLookUpAsksTheDatabase(t *testing.T) {
	t.Parallel()
	h := testhouse.New(t, &testhouse.Deliveries{})
	for range 3 {
		require.True(t, verifies(t, h, h.Secret))
		secret := rotate(t, h)
		require.False(t, verifies(t, h, h.Secret))
		h.Secret = secret
	}
}

func TestARotatedKeyIsHeardOf(t *testing.T) {
	t.Parallel()
	h := testhouse.New(t, &testhouse.Deliveries{})
	watch(t, h)
	for range 5 {
		require.True(t, verifies(t, h, h.Secret))
		secret := rotate(t, h)
		require.Eventually(t, func() bool { return verifies(t, h, secret) }, 10*time.Second, time.Millisecond)
		require.False(t, verifies(t, h, h.Secret), "the old key is gone with the new one's coming")
		h.Secret = secret
	}
	_, err := h.Accounts.Recent(t.Context(), standard.Name, "nobody")
	require.ErrorIs(t, err, tenant.ErrUnknown)
}

func TestWhileSomebodyListensAnAccountIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	h := testhouse.New(t, &testhouse.Deliveries{})
	stop := watch(t, h)
	// Without the database only memory can answer: the account is there for a moment, and not once nobody listens.
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		require.True(t, verifies(t, h, h.Secret))
		cancel() // a look-up under this context fails
		_, err := h.Accounts.Recent(ctx, standard.Name, h.Account.Name)
		return err == nil
	}, 10*time.Second, time.Millisecond)
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Accounts.Recent(ctx, standard.Name, h.Account.Name)
	require.ErrorIs(t, err, context.Canceled)
}
