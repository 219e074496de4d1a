package api_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// A channel gives up after 3 to 5 s.
const ackWithin = 3 * time.Second

// hanging is an engine that takes nothing and says nothing.
type hanging struct{ *testhouse.Deliveries }

func (hanging) Deliver(ctx context.Context, _ payment.Delivery) error {
	<-ctx.Done()
	return ctx.Err()
}

// panicking is an engine whose client is broken.
type panicking struct{ *testhouse.Deliveries }

func (panicking) Deliver(context.Context, payment.Delivery) error { panic("the driver is broken") }

func TestACallbackIsStoredAndAcknowledgedWhileTheEngineIsAway(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]testhouse.Driver{
		"it refuses": &testhouse.Deliveries{Err: errors.New("connection refused")},
		"it hangs":   hanging{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFace(t, driver)
			f.order(t, "o")
			begin := time.Now()
			requireAck(t, f.send(t, f.callback(t, string(testhouse.Paid(t, "tx", "o", 9900)))))
			require.Less(t, time.Since(begin), ackWithin)
			event := f.onlyEvent(t)
			require.Equal(t, "RECEIVED", event["state"])
			require.Nil(t, event["outcome"])
			// The re-drive takes it after the plan's retry time, not after the whole deadline.
			require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM channel_events WHERE next_drive_at < now() + interval '10 s'"))
		})
	}
}

// These two stop the server that all tests share, so they are not parallel: no test that is runs beside them.

func TestACallbackIsRefusedWith503WhileTheDatabaseHangs(t *testing.T) {
	f := newFace(t)
	f.order(t, "o")
	server := devstack.TestPostgres()
	t.Cleanup(func() { require.NoError(t, server.Resume()) })
	require.NoError(t, server.Pause())
	f.requireAway(t)
	require.NoError(t, server.Resume())
	f.requireBack(t)
}

func TestACallbackIsRefusedWith503WhileTheDatabaseIsDown(t *testing.T) {
	f := newFace(t)
	f.order(t, "o")
	server := devstack.TestPostgres()
	t.Cleanup(func() { require.NoError(t, server.Start(context.Background())) })
	require.NoError(t, server.Kill())
	f.requireAway(t)
	require.NoError(t, server.Start(t.Context()))
	f.requireBack(t)
}

// requireAway holds that, without a database, nothing is acknowledged and every answer is 503 in time.
func (f *face) requireAway(t *testing.T) {
	t.Helper()
	for range 3 { // the first finds connections that were open before
		begin := time.Now()
		got := f.send(t, f.callback(t, string(testhouse.Paid(t, "tx", "o", 9900))))
		require.Less(t, time.Since(begin), ackWithin)
		got.problem(t, 503, "unavailable")
	}
	got := f.call(t, "GET", "/v1/payments/o", "")
	got.problem(t, 503, "unavailable")
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	require.Equal(t, "does not answer", f.call(t, "GET", "/readyz/callbacks", "").is(t, 503).fields(t)["database"])
	f.call(t, "GET", "/healthz", "").is(t, 200)
}

// requireBack holds that the same callback is accepted and credited once.
func (f *face) requireBack(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return f.send(t, f.callback(t, string(testhouse.Paid(t, "tx", "o", 9900)))).StatusCode == 200
	}, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
	require.Equal(t, 9900, f.Balance(t, "merchant"))
	f.RequireInvariants(t)
	f.call(t, "GET", "/readyz", "").is(t, 200)
}
