package stripe_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

// A list is read up to a bound, so a busy shop's orders of a whole day would never be found: what was made before the order
// is none of it, and is not looked through.
func TestAnOrderIsLookedForAmongWhatWasMadeSinceItWas(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	since, status := map[string]int64{}, map[string]string{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.URL.Query().Get("created[gte]"); from != "" {
			at, err := strconv.ParseInt(from, 10, 64)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			since[r.URL.Path], status[r.URL.Path] = at, r.URL.Query().Get("status")
			mu.Unlock()
		}
		_, _ = w.Write([]byte(`{"object":"list","data":[],"has_more":false}`))
	}))
	t.Cleanup(api.Close)
	account := open(t, map[string]any{"base_url": api.URL}).(channel.Acquirer)
	o := order("order-1")
	o.Method, o.CreatedAt = "checkout", time.Now().Add(-5*time.Minute)
	standing, err := account.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderUnknown, standing.State)
	for _, path := range []string{"/v1/payment_intents", "/v1/checkout/sessions"} {
		require.Equal(t, o.CreatedAt.Add(-time.Minute).Unix(), since[path], path)
	}

	require.Equal(t, "open", status["/v1/checkout/sessions"], "what is over is known by its PaymentIntent, which can be searched for")

	o.CreatedAt = time.Now().Add(-48 * time.Hour)
	_, err = account.Query(t.Context(), o)
	require.NoError(t, err)
	require.Greater(t, since["/v1/payment_intents"], o.CreatedAt.Add(24*time.Hour).Unix(), "what is older is found by Search")
	require.Greater(t, since["/v1/checkout/sessions"], o.CreatedAt.Add(20*time.Hour).Unix(), "what is older has expired")
}
