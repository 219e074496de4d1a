package channel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func TestKeysAndMoneyGoOverTLSOrStayOnThisMachine(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                           "https://api.example.com",
		"https://other.example/v3/":  "https://other.example/v3",
		"http://127.0.0.1:9000/sim/": "http://127.0.0.1:9000/sim",
		"http://[::1]:9000":          "http://[::1]:9000",
		"http://localhost:9000":      "http://localhost:9000",
	} {
		u, err := channel.BaseURL(raw, "https://api.example.com")
		require.NoError(t, err, raw)
		require.Equal(t, want, u.String())
	}
	for _, raw := range []string{
		"http://api.example.com", "http://10.0.0.1", "http://127.0.0.1.example.com", "ftp://127.0.0.1", "api.example.com", "https:", "https://",
		"https://u:p@api.example.com", "https://api.example.com?a=b", "https://api.example.com?", "https://api.example.com#a", "https:api.example.com", "://",
	} {
		_, err := channel.BaseURL(raw, "https://api.example.com")
		require.Error(t, err, raw)
	}
}
