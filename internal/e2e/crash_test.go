package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

func TestAWorkerKilledBetweenCommitAndReport(t *testing.T) {
	h, c := newStory(t)
	h.Create(t, testhouse.Order("o", 9900))
	require.Equal(t, http.StatusOK, callback(h, serve(t, h, start.New(c)).URL, paid(t, "o")))
	requireKilled(t, startChild(t, h, workerThatDies, ""))
	require.Equal(t, 1, h.Journals(t), "it died after its commit")

	work(t, h, c)
	id := workflows.PaymentID(h.Tenant, "o")
	requireClosed(t, c, id)
	requireCreditedOnce(t, h, "o")
	record(t, "payment_worker_killed", historyOf(t, c, id))
}

func TestAnAPIKilledBetweenRowAndSignal(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	h.Create(t, testhouse.Order("o", 9900))
	address := filepath.Join(t.TempDir(), "address")
	ended := startChild(t, h, apiThatDies, address)
	var url []byte
	require.Eventually(t, func() bool {
		var err error
		url, err = os.ReadFile(address)
		return err == nil
	}, 20*time.Second, 20*time.Millisecond)
	require.Zero(t, callback(h, string(url), paid(t, "o")), "no answer: the channel will send again")
	requireKilled(t, ended)
	require.Equal(t, []string{"RECEIVED"}, h.Events(t, "o"), "and yet it is stored")

	require.Equal(t, http.StatusOK, callback(h, serve(t, h, start.New(c)).URL, paid(t, "o")))
	h.Clock.Pass(payment.DefaultPlan.Received)
	requireCreditedOnce(t, h, "o")
}

func TestTemporalAwayDuringCallbacks(t *testing.T) {
	h, c := newStory(t)
	work(t, h, c)
	srv := serve(t, h, start.New(c))
	var orders []string
	for i := range 5 {
		orders = append(orders, fmt.Sprint("o", i))
		h.Create(t, testhouse.Order(orders[i], 9900))
	}
	require.NoError(t, devstack.TestTemporal().Kill())
	for _, order := range orders {
		for range 2 {
			begin := time.Now()
			require.Equal(t, http.StatusOK, callback(h, srv.URL, paid(t, order)), "stored is enough to acknowledge")
			require.Less(t, time.Since(begin), 3*time.Second, "a channel gives up after 3 s")
		}
	}
	require.NoError(t, devstack.TestTemporal().Start(t.Context()))
	h.Clock.Pass(payment.DefaultPlan.Received)
	requireCreditedOnce(t, h, orders...)
}

func TestWorkersWaitForAnEngineThatIsAwayAsTheyStart(t *testing.T) {
	h, c := newStory(t)
	h.Create(t, testhouse.Order("o", 9900))
	require.NoError(t, devstack.TestTemporal().Kill())
	work(t, h, c)
	require.Equal(t, http.StatusOK, callback(h, serve(t, h, start.New(c)).URL, paid(t, "o")))
	require.NoError(t, devstack.TestTemporal().Start(t.Context()))
	h.Clock.Pass(payment.DefaultPlan.Received)
	requireCreditedOnce(t, h, "o")
}

func TestPostgreSQLAwayDuringCallbacks(t *testing.T) {
	h, c := newStory(t)
	srv := serve(t, h, start.New(c))
	for _, order := range []string{"before", "during"} {
		h.Create(t, testhouse.Order(order, 9900))
	}
	// Acknowledged, and nobody has worked on it when the database crashes.
	require.Equal(t, http.StatusOK, callback(h, srv.URL, paid(t, "before")))
	require.NoError(t, devstack.TestPostgres().Kill())
	refusedInTime := func() {
		begin := time.Now()
		require.GreaterOrEqual(t, callback(h, srv.URL, paid(t, "during")), 500, "what cannot be stored is not acknowledged")
		require.Less(t, time.Since(begin), 3*time.Second, "a channel gives up after 3 s")
	}
	for range 3 {
		refusedInTime()
	}
	require.NoError(t, devstack.TestPostgres().Start(t.Context()))

	// A database that hangs is as bad as one that is gone.
	require.NoError(t, devstack.TestPostgres().Pause())
	refusedInTime()
	require.NoError(t, devstack.TestPostgres().Resume())

	require.Eventually(t, func() bool { return callback(h, srv.URL, paid(t, "during")) == http.StatusOK },
		20*time.Second, 100*time.Millisecond, "sent again, it is stored")
	h.Clock.Pass(payment.DefaultPlan.Received)
	work(t, h, c)
	requireCreditedOnce(t, h, "before", "during")
}

func TestTheDatabaseGoesAwayWhileAFlowBooks(t *testing.T) {
	h, c := newStory(t)
	h.Create(t, testhouse.Order("o", 9900))
	require.Equal(t, http.StatusOK, callback(h, serve(t, h, start.New(c)).URL, paid(t, "o")))
	require.NoError(t, devstack.TestPostgres().Kill())
	work(t, h, c)
	id := workflows.PaymentID(h.Tenant, "o")
	// The short local step fails; the flow goes on with the patient one on the ledger queue.
	require.Eventually(t, func() bool {
		described, err := c.DescribeWorkflow(t.Context(), id, "")
		return err == nil && len(described.RawResponse.PendingActivities) == 1
	}, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, devstack.TestPostgres().Start(t.Context()))
	requireClosed(t, c, id)
	requireCreditedOnce(t, h, "o")
	record(t, "payment_database_away", historyOf(t, c, id))
}
