package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/strictjson"
)

func TestWhatTwoReadersCouldReadDifferentlyIsRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty":                   ``,
		"not JSON":                `<xml/>`,
		"cut off":                 `{"a":1`,
		"cut off in a list":       `[1,`,
		"two values":              `{} {}`,
		"trailing garbage":        `{}x`,
		"key twice":               `{"amount":1,"amount":2}`,
		"key twice, other case":   `{"amount":1,"Amount":2}`,
		"key twice, by folding":   `{"transaction_id":"A","tran\u017faction_id":"B"}`,
		"key twice by escape":     `{"amount":1,"\u0061mount":2}`,
		"key twice deep inside":   `{"a":[{"b":1,"b":2}]}`,
		"invalid UTF-8":           "{\"a\":\"\xff\"}",
		"lone high surrogate":     `{"a":"\ud800"}`,
		"lone low surrogate":      `{"a":"\udc00"}`,
		"high surrogate, no pair": `{"a":"\ud800\u0041"}`,
		"deep nesting":            strings.Repeat("[", 33) + strings.Repeat("]", 33),
		"endless nesting":         strings.Repeat(`{"a":`, 100_000),
	} {
		require.ErrorIs(t, strictjson.Check([]byte(body)), strictjson.ErrMalformed, name)
	}
}

func TestOrdinaryJSONPasses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`null`, `{}`, `[]`, ` {"a":{"b":1},"c":{"b":2}} `, `{"a":"\\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\u00e9\n"}`,
		`{"a":[{"k":1},{"k":1}]}`, strings.Repeat("[", 32) + strings.Repeat("]", 32),
	} {
		require.NoError(t, strictjson.Check([]byte(body)), body)
	}
}

func TestUnmarshalKnownRefusesAMisspeltField(t *testing.T) {
	t.Parallel()
	var v struct {
		Amount int64 `json:"amount"`
	}
	require.Error(t, strictjson.UnmarshalKnown([]byte(`{"amuont":1}`), &v))
	require.NoError(t, strictjson.Unmarshal([]byte(`{"amuont":1}`), &v))
	require.NoError(t, strictjson.UnmarshalKnown([]byte(`{"amount":9007199254740993}`), &v))
	require.Equal(t, int64(9007199254740993), v.Amount)
}

func FuzzCheckAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":1,"A":2}`, `"\ud800"`, `[[[]]]`, `{"a":"\\u"}`, `1e5`, `"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data) == nil {
			require.True(t, json.Valid(data))
		}
	})
}
