package devstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// pingTemporal asks the server for the namespace once and registers the search attributes it does not know: the dev
// server takes those of its command line only into a namespace it makes, not into one of an existing file.
func pingTemporal(ctx context.Context, address, namespace string, attributes map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: quietLogger()})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{
		Namespace: namespace,
	}); err != nil {
		return fmt.Errorf("asking for namespace %s: %w", namespace, err)
	}
	if len(attributes) == 0 {
		return nil
	}
	return registerSearchAttributes(ctx, c, namespace, attributes)
}

func registerSearchAttributes(ctx context.Context, c client.Client, namespace string, attributes map[string]string) error {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{
		Namespace: namespace,
	})
	if err != nil {
		return fmt.Errorf("listing search attributes: %w", err)
	}
	missing := map[string]enums.IndexedValueType{}
	for name, typeName := range attributes {
		want, err := enums.IndexedValueTypeFromString(typeName)
		if err != nil {
			return fmt.Errorf("search attribute %s: %w", name, err)
		}
		have, ok := known.CustomAttributes[name]
		switch {
		case !ok:
			missing[name] = want
		case have != want:
			return fmt.Errorf("%w: search attribute %s is a %s on the server and should be a %s", errHopeless, name, have, want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        namespace,
		SearchAttributes: missing,
	}); err != nil {
		return fmt.Errorf("registering search attributes: %w", err)
	}
	return nil
}

// checkSearchAttributes refuses a type that no server knows before anything is started.
func checkSearchAttributes(attributes map[string]string) error {
	var wrong []error
	for name, typeName := range attributes {
		if t, err := enums.IndexedValueTypeFromString(typeName); err != nil || t == enums.INDEXED_VALUE_TYPE_UNSPECIFIED {
			wrong = append(wrong, fmt.Errorf("search attribute %s has the unknown type %q", name, typeName))
		}
	}
	return errors.Join(wrong...)
}
