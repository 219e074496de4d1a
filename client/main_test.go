package client_test

import (
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/client"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestMain(m *testing.M) { os.Exit(devstack.Main(m, devstack.Needs{Postgres: true})) }

// shop is a house with its API on a real server, and a client of it.
type shop struct {
	*testhouse.House
	client *client.Client
	driver *testhouse.Deliveries
	URL    string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{driver: &testhouse.Deliveries{}}
	s.House = testhouse.New(t, s.driver)
	group := ledger.NewGroup(s.Engine)
	t.Cleanup(group.Stop)
	srv := httptest.NewServer(api.Handler(api.Config{
		Orders: s.Orders, Entry: s.Entry, Books: s.Books, Accounts: s.Accounts, Acquiring: s.Acquiring, Transfers: s.Transfers, Group: group,
		Refunds: s.Refunds, API: s.API, Engine: s.Engine, Log: s.Log, WorkflowURL: func(string) string { return "" },
	}))
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	s.client = s.connect(t, s.URL)
	return s
}

// connect gives a client that does not wait between attempts.
func (s *shop) connect(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, s.APIKey, append([]client.Option{client.Pause(func(int) time.Duration { return 0 })}, options...)...)
	require.NoError(t, err)
	return c
}
