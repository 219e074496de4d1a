package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCallIsMadeOnceAndNotMoreAtOnceThanAsked(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := map[int]int{}
	var now, most atomic.Int64
	require.NoError(t, each(t.Context(), 1000, 7, func(_ context.Context, i int) error {
		for n := now.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer now.Add(-1)
		mu.Lock()
		defer mu.Unlock()
		calls[i]++
		return nil
	}))
	require.Len(t, calls, 1000)
	for i, n := range calls {
		require.Equal(t, 1, n, "call %d", i)
	}
	require.LessOrEqual(t, most.Load(), int64(7))
}

func TestTheFirstErrorEndsTheCalls(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var calls atomic.Int64
	err := each(t.Context(), 1_000_000, 4, func(context.Context, int) error {
		if calls.Add(1) == 10 {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
	require.Less(t, calls.Load(), int64(1_000_000))
}

func TestASenderSendsWhatIsReadyAndWantsItAccepted(t *testing.T) {
	t.Parallel()
	var answers atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/callbacks/x/y" || string(body) != "paid" || r.Header.Get("Signature") != "ok" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answers.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	defer srv.Close()
	s, err := newSender(srv.URL, 3)
	require.NoError(t, err)
	defer s.reset()
	good := requestBytes("/callbacks/x/y", http.Header{"Signature": {"ok"}}, []byte("paid"))
	require.NoError(t, each(t.Context(), 100, 8, func(context.Context, int) error { return s.send(good) }))
	require.Equal(t, int64(100), answers.Load())
	require.ErrorContains(t, s.send(requestBytes("/callbacks/x/y", nil, []byte("paid"))), "answered 400")
	require.NoError(t, s.send(good), "it goes on after a refusal")

	lone, err := newSender(srv.URL, 1)
	require.NoError(t, err)
	defer lone.reset()
	require.NoError(t, lone.send(good))
	srv.CloseClientConnections()
	lone.reset()
	require.NoError(t, lone.send(good), "it goes on after a pause in which it was cut off")
	srv.CloseClientConnections()
	require.ErrorContains(t, lone.send(good), "send a callback")
	require.NoError(t, lone.send(good), "what is broken is not used again")
}
