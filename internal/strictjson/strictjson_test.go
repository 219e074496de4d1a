package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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

func TestARefusalSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``: "it ends too early", `{"a":1`: "it ends too early", `{} {}`: "more than one value", `{}x`: "more than one value", `<xml/>`: "at byte 1",
		`{"a":1,}`: "at byte 8", `{"a":1,"a":2}`: "a key stands twice in one object",
	} {
		require.EqualError(t, strictjson.Check([]byte(body)), "malformed JSON: "+want, "%q", body)
	}
}

func TestAKeyAmongManyIsRefusedToo(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"k%d":{"x":1,"y":[{"x":2}]},`, i)
	}
	require.NoError(t, strictjson.Check([]byte(`{`+many.String()+`"last":1}`)))
	for _, key := range []string{"k0", "K15", "k16", `\u212a17`, "k999"} { // U+212A is the sign of the kelvin, and folds to k
		require.ErrorIs(t, strictjson.Check([]byte(`{`+many.String()+`"`+key+`":1}`)), strictjson.ErrMalformed, key)
	}
}

func TestAnOrdinaryMessageIsCheckedWithoutCopying(t *testing.T) {
	body := []byte(`{"type": "payment.succeeded", "data": {"amount": 100, "list": [{"a": "x:y"}, {"a": "\\"}], "currency" : "CNY"}}`)
	require.NoError(t, strictjson.Check(body))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = strictjson.Check(body) }))
}

// reference is Check as one reads it out of the tokens of encoding/json.
func reference(dec *json.Decoder, depth int) bool {
	token, err := dec.Token()
	if err != nil {
		return false
	}
	open, isDelim := token.(json.Delim)
	if !isDelim {
		return true
	}
	var keys []string
	for dec.More() {
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return false
			}
			key := token.(string)
			if slices.ContainsFunc(keys, func(other string) bool { return strings.EqualFold(key, other) }) {
				return false
			}
			keys = append(keys, key)
		}
		if depth+1 > strictjson.MaxDepth || !reference(dec, depth+1) {
			return false
		}
	}
	_, err = dec.Token()
	return err == nil && depth < strictjson.MaxDepth
}

func FuzzCheckAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":1}`, `{"a":1,"A":2}`, `"\ud800"`, `[[[]]]`, `{"a":"\\u"}`, `1e5`, `"\`, `{"a" : {"a":[]}, "b":"a:\"b\":"}`, `{"\u0061":1,"a":2}`, ` {"":0} `,
		`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"r":0,"a":0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		accepted := strictjson.Check(data) == nil
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		one := json.Valid(data) && reference(dec, 0)
		if accepted {
			require.True(t, one)
		} else if one {
			// What encoding/json alone would take is refused for its letters.
			require.True(t, !utf8.Valid(data) || bytes.Contains(bytes.ToLower(data), []byte(`\ud`)), "%q", data)
		}
	})
}
