package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPreferenceIsReadAsRFC7240Says(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	for i, c := range []struct {
		prefer []string
		async  bool
	}{
		{[]string{"respond-async"}, true},
		{[]string{"Respond-Async"}, true},
		{[]string{"return=minimal", "respond-async"}, true},
		{[]string{"return=minimal,respond-async , wait=10"}, true},
		{[]string{`respond-async; foo="a,b"`}, true},
		{[]string{`respond-async=""`}, true},
		{[]string{`foo="a, \"b", respond-async`}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"respond-asynchronously"}, false},
		{[]string{"not-respond-async"}, false},
		{[]string{`foo="respond-async"`}, false},
		{[]string{`foo="a, respond-async, b"`}, false},
		{[]string{`foo="a\", respond-async`}, false},
		{[]string{"wait=1; respond-async"}, false},
		{[]string{"respond-async=no"}, false},
	} {
		r := f.transferRequest(t, and(move("a", "b", 1), `"mode":"tcc"`), "Idempotency-Key", fmt.Sprint("k-", i))
		r.Header["Prefer"] = c.prefer
		got := f.send(t, r)
		require.Equal(t, map[bool]int{true: 202, false: 201}[c.async], got.StatusCode, "%q: %s", c.prefer, got.Text)
		require.Equal(t, map[bool]string{true: "respond-async"}[c.async], got.Header.Get("Preference-Applied"))
	}
}
