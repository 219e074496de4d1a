package stripe_test

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/stripe"
)

// findings gives a check's words, and whether all is right.
func findings(list []channel.Finding) (ok bool, words string) {
	ok = len(list) > 0
	for _, f := range list {
		ok = ok && f.OK && f.What != ""
		words += f.What + ": " + f.Detail + "\n"
	}
	return ok, words
}

func TestACheckOfAnAccount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ok, words := findings(s.Check(t.Context()))
	require.True(t, ok, words)
	require.Contains(t, words, s.sim.AccountID())
	require.Contains(t, words, "test mode")

	s.sim.Endpoint("")
	ok, words = findings(s.Check(t.Context()))
	require.False(t, ok)
	require.Contains(t, words, "no enabled endpoint")

	s.sim.Endpoint("https://shop.example/callbacks/stripe/main")
	s.sim.Quirk(simulated.Quirks{Forbid: []string{"/v1/account", "/v1/webhook_endpoints"}})
	ok, words = findings(s.Check(t.Context()))
	require.True(t, ok, "a restricted key need not read them")
	require.Contains(t, words, "restricted key")

	s.sim.Quirk(simulated.Quirks{Forbid: []string{"/v1/balance"}})
	ok, words = findings(s.Check(t.Context()))
	require.False(t, ok)
	require.Contains(t, words, "there will be no bills")

	require.Empty(t, s.sim.Orders(), "a check changes nothing")
}

func TestACheckOfWhatIsWrong(t *testing.T) {
	t.Parallel()
	s, other := newShop(t), newShop(t)
	api := httptest.NewServer(other.sim.Handler())
	t.Cleanup(api.Close)
	account, err := stripe.Channel{}.Open("main", s.sim.Config(api.URL))
	require.NoError(t, err)
	ok, words := findings(account.(channel.Acquirer).Check(t.Context()))
	require.False(t, ok)
	require.Contains(t, words, "does not know this secret_key")

	// Nobody listens there.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	account, err = stripe.Channel{}.Open("main", s.sim.Config(address))
	require.NoError(t, err)
	list := account.(channel.Acquirer).Check(t.Context())
	require.Len(t, list, 1)
	require.False(t, list[0].OK)
	require.Contains(t, list[0].Detail, strings.TrimPrefix(address, "http://"))
	require.Contains(t, list[0].Detail, "base_url")
}
