package share_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/share"
)

func TestAPlanHasOneForm(t *testing.T) {
	t.Parallel()
	want := `{"receivers":[{"account":"a","ratio":30},{"type":"MERCHANT_ID","account":"b","name":"B","ratio":70}],"merchant_ratio":0}`
	for _, text := range []string{
		`{"receivers":[{"account":"a","ratio":30},{"account":"b","type":"MERCHANT_ID","name":"B","ratio":70}]}`,
		`{"merchant_ratio":0, "receivers":[{"ratio":70,"account":"b","name":"B","type":"MERCHANT_ID"},{"account":"a","ratio":30}]}`,
		want,
	} {
		p, err := share.ParsePlan(json.RawMessage(text))
		require.NoError(t, err)
		require.JSONEq(t, want, string(p.JSON()))
		require.Equal(t, want, string(p.JSON()), "to the byte")
	}
}

func TestAPlanDividesAnAmount(t *testing.T) {
	t.Parallel()
	p, err := share.ParsePlan(json.RawMessage(`{"receivers":[{"account":"b","ratio":70},{"account":"a","ratio":30}]}`))
	require.NoError(t, err)
	require.Equal(t, []int64{194, 451}, p.Of(645))
	p, err = share.ParsePlan(json.RawMessage(`{"receivers":[{"account":"a","ratio":30}],"merchant_ratio":70}`))
	require.NoError(t, err)
	require.Equal(t, []int64{194}, p.Of(645))
	p, err = share.ParsePlan(json.RawMessage(`{"receivers":[{"account":"a","ratio":1}],"merchant_ratio":0}`))
	require.NoError(t, err)
	require.Equal(t, []int64{645}, p.Of(645), "the merchant said that it keeps nothing")
}

func TestWhatCannotBeAPlan(t *testing.T) {
	t.Parallel()
	many := make([]string, share.MaxReceivers+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"account":"r%d","ratio":1}`, i)
	}
	for name, text := range map[string]string{
		"nothing":                      ``,
		"null":                         `null`,
		"a list":                       `[]`,
		"no receivers":                 `{"receivers":[]}`,
		"no receivers, all kept":       `{"receivers":[],"merchant_ratio":1}`,
		"one ratio alone":              `{"receivers":[{"account":"a","ratio":30}]}`,
		"a fraction":                   `{"receivers":[{"account":"a","ratio":0.3},{"account":"b","ratio":0.7}]}`,
		"a ratio of 0":                 `{"receivers":[{"account":"a","ratio":0},{"account":"b","ratio":1}]}`,
		"a ratio below 0":              `{"receivers":[{"account":"a","ratio":-1},{"account":"b","ratio":2}]}`,
		"a ratio too large":            `{"receivers":[{"account":"a","ratio":1000001},{"account":"b","ratio":2}]}`,
		"no ratio":                     `{"receivers":[{"account":"a"},{"account":"b","ratio":2}]}`,
		"a merchant's part below 0":    `{"receivers":[{"account":"a","ratio":1}],"merchant_ratio":-1}`,
		"no account":                   `{"receivers":[{"ratio":1},{"account":"b","ratio":2}]}`,
		"an account twice":             `{"receivers":[{"account":"a","ratio":1},{"account":"a","type":"x","ratio":2}]}`,
		"a control character":          `{"receivers":[{"account":"a\n","ratio":1},{"account":"b","ratio":2}]}`,
		"an account too long":          `{"receivers":[{"account":"` + strings.Repeat("a", 129) + `","ratio":1},{"account":"b","ratio":2}]}`,
		"a type that is none":          `{"receivers":[{"account":"a","type":"A B","ratio":1},{"account":"b","ratio":2}]}`,
		"an unknown field":             `{"receivers":[{"account":"a","ratio":1,"amount":2},{"account":"b","ratio":2}]}`,
		"more receivers than anywhere": `{"receivers":[` + strings.Join(many, ",") + `]}`,
	} {
		_, err := share.ParsePlan(json.RawMessage(text))
		require.ErrorIs(t, err, share.ErrInvalid, name)
	}
	_, err := share.ParsePlan(json.RawMessage(`{"receivers":[` + strings.Join(many[1:], ",") + `]}`))
	require.NoError(t, err, "fifty are taken")
}
