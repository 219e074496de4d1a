package channel_test

import (
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

// A worker that waits for one account's rate cannot work for another.
func TestAnAccountThatCallsTooOftenIsTurnedAwayInsteadOfWaiting(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	bank := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { made.Add(1) }))
	t.Cleanup(bank.Close)
	busy, other := channel.NewCaller(), channel.NewCaller()
	t.Cleanup(busy.Close)
	t.Cleanup(other.Close)
	var done, turnedAway atomic.Int64
	var calls sync.WaitGroup
	for range 200 {
		calls.Go(func() {
			if _, err := busy.Do(get(t, bank.URL)); err != nil {
				turnedAway.Add(1)
				return
			}
			done.Add(1)
		})
	}
	calls.Wait()
	require.NotZero(t, turnedAway.Load())
	require.GreaterOrEqual(t, done.Load(), int64(30), "what the rate allows is done")
	require.Equal(t, done.Load(), made.Load(), "who is turned away has not called")
	_, err := other.Do(get(t, bank.URL))
	require.NoError(t, err, "each account has a rate of its own")
}

func TestAReplyIsBoundedAsItIsRead(t *testing.T) {
	t.Parallel()
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip") // a kilobyte that becomes a megabyte
		zip := gzip.NewWriter(w)
		_, _ = zip.Write(make([]byte, 1<<20+1))
		_ = zip.Close()
	}))
	t.Cleanup(bank.Close)
	caller := channel.NewCaller()
	t.Cleanup(caller.Close)
	_, err := caller.Do(get(t, bank.URL))
	require.ErrorContains(t, err, "more than 1 MiB")
}

func TestARedirectIsAnAnswerAndNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the signed request went to somebody else") }))
	t.Cleanup(elsewhere.Close)
	bank := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(bank.Close)
	caller := channel.NewCaller()
	t.Cleanup(caller.Close)
	reply, err := caller.Do(get(t, bank.URL))
	require.NoError(t, err)
	require.Equal(t, http.StatusTemporaryRedirect, reply.Status)
}
