package client_test

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/paylatch/paylatch/client"
)

func TestTypesAreWhatTheDescriptionSays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../api/openapi.yaml")
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas map[string]schema `yaml:"schemas"`
		} `yaml:"components"`
	}
	require.NoError(t, yaml.Unmarshal(text, &doc))
	schemas := doc.Components.Schemas
	for name, value := range map[string]any{
		"PaymentRequest": client.PaymentRequest{}, "Item": client.Item{}, "PaymentDetail": client.Payment{}, "Event": client.Event{},
		"RefundRequest": client.RefundRequest{}, "Refund": client.Refund{}, "ShareRequest": client.ShareRequest{}, "Share": client.Share{},
		"Account": client.Account{}, "AccountRequest": client.AccountRequest{}, "Entry": client.Entry{},
		"TransferRequest": client.TransferRequest{}, "Participant": client.Participant{}, "Transfer": client.Transfer{}, "Stock": client.Stock{},
	} {
		require.Equal(t, schemas[name].names(schemas), fields(value), name)
	}
	inner := func(names ...string) schema {
		s := schemas[names[0]]
		for _, name := range names[1:] {
			s = s.Properties[name]
			if s.Items != nil {
				s = *s.Items
			}
		}
		return s
	}
	for value, s := range map[any]schema{
		client.ShareReceiver{}: inner("ShareRequest", "receivers"), client.ShareLeg{}: inner("Share", "receivers"),
		client.ShareReturn{}:   inner("Share", "returns"),
		client.JournalResult{}: inner("JournalResults", "items"), client.Line{}: inner("JournalsRequest", "journals", "lines"),
	} {
		require.Equal(t, s.names(schemas), fields(value), "%T", value)
	}
	require.Equal(t, inner("JournalsRequest", "journals").names(schemas), fields(client.Journal{}))
}

type schema struct {
	Ref        string            `yaml:"$ref"`
	Properties map[string]schema `yaml:"properties"`
	Items      *schema           `yaml:"items"`
	AllOf      []schema          `yaml:"allOf"`
}

// names lists the fields of a schema and of what it is made of.
func (s schema) names(all map[string]schema) []string {
	names := slices.Collect(maps.Keys(s.Properties))
	for _, member := range s.AllOf {
		if member.Ref != "" {
			member = all[member.Ref[strings.LastIndex(member.Ref, "/")+1:]]
		}
		names = append(names, member.names(all)...)
	}
	slices.Sort(names)
	return names
}

func fields(value any) (names []string) {
	for field := range reflect.TypeOf(value).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
