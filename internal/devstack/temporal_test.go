package devstack

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

func startTemporal(t *testing.T, o TemporalOptions) *Temporal {
	t.Helper()
	server, err := StartTemporal(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.end((*supervisor).kill)) })
	return server
}

func dial(t *testing.T, address, namespace string) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address, Namespace: namespace, Logger: quietLogger()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// attributesOf returns the custom search attributes: name to type.
func attributesOf(t *testing.T, address string) map[string]string {
	t.Helper()
	answer, err := dial(t, address, "default").OperatorService().ListSearchAttributes(t.Context(),
		&operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	require.NoError(t, err)
	attributes := map[string]string{}
	for name, kind := range answer.CustomAttributes {
		attributes[name] = kind.String()
	}
	return attributes
}

func hasNamespace(t *testing.T, address, name string) bool {
	t.Helper()
	_, err := dial(t, address, "default").WorkflowService().DescribeNamespace(t.Context(),
		&workflowservice.DescribeNamespaceRequest{Namespace: name})
	return err == nil
}

func TestTemporalKeepsWhatItKnowsAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir, progress := filepath.Join(t.TempDir(), "temporal"), &said{}
	server := startTemporal(t, TemporalOptions{
		Dir: dir, Headless: true, Progress: progress, SearchAttributes: map[string]string{"Tenant": "Keyword"},
	})
	require.Empty(t, server.UIURL())
	require.Equal(t, map[string]string{"Tenant": "Keyword"}, pick(attributesOf(t, server.Address()), "Tenant", "Amount"))
	_, err := dial(t, server.Address(), "default").WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: "kept", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)

	// Stop, Start.
	require.NoError(t, server.Stop())
	require.NoError(t, server.Stop(), "stopping twice")
	_, err = client.DialContext(t.Context(), client.Options{HostPort: server.Address(), Logger: quietLogger()})
	require.Error(t, err)
	require.NoError(t, server.Start(t.Context()))
	require.True(t, hasNamespace(t, server.Address(), "kept"))

	// Killed by a stranger.
	require.NoError(t, syscall.Kill(server.server.pid(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return strings.Contains(progress.String(), "Temporal is back") }, patience, often)
	require.True(t, hasNamespace(t, server.Address(), "kept"))

	// One user of the directory at a time.
	_, err = StartTemporal(t.Context(), TemporalOptions{Dir: dir, Headless: true})
	require.ErrorContains(t, err, "is in use by another paylatch")

	// A later run wants one attribute more.
	require.NoError(t, server.Kill())
	later := startTemporal(t, TemporalOptions{
		Dir: dir, Headless: true, SearchAttributes: map[string]string{"Tenant": "Keyword", "Amount": "Int"},
	})
	require.True(t, hasNamespace(t, later.Address(), "kept"))
	require.Equal(t, map[string]string{"Tenant": "Keyword", "Amount": "Int"}, pick(attributesOf(t, later.Address()), "Tenant", "Amount"))

	// And a given server is left alone, but for attributes it should have.
	given, err := StartTemporal(t.Context(), TemporalOptions{Address: later.Address(), SearchAttributes: map[string]string{"Amount": "Int"}})
	require.NoError(t, err)
	require.True(t, given.Given())
	require.NoError(t, given.Stop())
	require.ErrorIs(t, given.Kill(), errGivenTemporal)
	require.True(t, hasNamespace(t, given.Address(), "kept"))
	_, err = StartTemporal(t.Context(), TemporalOptions{Address: later.Address(), SearchAttributes: map[string]string{"Amount": "Keyword"}})
	require.ErrorContains(t, err, "search attribute Amount is a Int on the server and should be a Keyword")
}

func pick(from map[string]string, names ...string) map[string]string {
	picked := map[string]string{}
	for _, name := range names {
		if value, ok := from[name]; ok {
			picked[name] = value
		}
	}
	return picked
}

func TestTemporalInMemoryServesItsUI(t *testing.T) {
	t.Parallel()
	server := startTemporal(t, TemporalOptions{Namespace: "shop"})
	require.True(t, hasNamespace(t, server.Address(), "shop"))
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.UIURL(), nil)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(get)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

func TestATakenTemporalPortIsNamedWithItsFlag(t *testing.T) {
	t.Parallel()
	port, text := takePort(t)
	_, err := StartTemporal(t.Context(), TemporalOptions{Port: port})
	require.EqualError(t, err, "starting Temporal: port "+text+" on 127.0.0.1 is taken by another program: stop it or choose "+
		"another with --temporal-port")
	_, err = StartTemporal(t.Context(), TemporalOptions{UIPort: port})
	require.EqualError(t, err, "starting the Temporal UI: port "+text+" on 127.0.0.1 is taken by another program: stop it or choose "+
		"another with --ui-port")
}

func TestAnUnknownSearchAttributeTypeIsRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	_, err := StartTemporal(t.Context(), TemporalOptions{SearchAttributes: map[string]string{"Tenant": "String"}})
	require.EqualError(t, err, `search attribute Tenant has the unknown type "String"`)
}

func TestATemporalThatIsNotThereIsTold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := StartTemporal(ctx, TemporalOptions{Address: "127.0.0.1:1"})
	require.ErrorContains(t, err, "reaching the Temporal given by its address 127.0.0.1:1")
}
