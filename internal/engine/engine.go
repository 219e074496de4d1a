// Package engine connects to Temporal.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.uber.org/zap"
)

// Options reads Temporal's standard environment configuration (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS, API key, or a
// configuration file). A non-empty address is a dev's private server: of the environment nothing applies to it.
func Options(address string, log *zap.Logger) (client.Options, error) {
	if address != "" {
		return client.Options{HostPort: address, Namespace: client.DefaultNamespace, Logger: logger{log.Sugar()}}, nil
	}
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return client.Options{}, fmt.Errorf("read Temporal's environment configuration: %w", err)
	}
	if o.HostPort == "" {
		o.HostPort = client.DefaultHostPort
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	o.Logger = logger{log.Sugar()}
	return o, nil
}

// Open makes a client that connects when it is first used: callbacks are stored whether the engine is there or not.
func Open(o client.Options) (client.Client, error) {
	c, err := client.NewLazyClient(o)
	if err != nil {
		return nil, fmt.Errorf("open the Temporal client: %w", err)
	}
	return c, nil
}

// logger gives the SDK's lines to zap; both take alternating keys and values.
type logger struct{ *zap.SugaredLogger }

func (l logger) Debug(msg string, kv ...any) { l.Debugw(msg, kv...) }
func (l logger) Info(msg string, kv ...any)  { l.Infow(msg, kv...) }
func (l logger) Warn(msg string, kv ...any)  { l.Warnw(msg, kv...) }
func (l logger) Error(msg string, kv ...any) { l.Errorw(msg, kv...) }

// Healthy reports whether the engine answers.
func Healthy(ctx context.Context, c client.Client) error {
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("temporal does not answer: %w", err)
	}
	return nil
}

// Register makes the search attributes that are missing in the namespace and waits until the engine accepts them.
// attributes maps names to types, such as "Keyword".
func Register(ctx context.Context, c client.Client, namespace string, attributes map[string]string) error {
	missing, err := unregistered(ctx, c, namespace, attributes)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("register the search attributes %v in namespace %s (or create them with: temporal operator search-attribute create): %w",
			keys(missing), namespace, err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if missing, err = unregistered(ctx, c, namespace, attributes); err == nil && len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the search attributes %v: %w", keys(missing), errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func unregistered(ctx context.Context, c client.Client, namespace string, attributes map[string]string) (map[string]enums.IndexedValueType, error) {
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list the search attributes of namespace %s: %w", namespace, err)
	}
	missing := map[string]enums.IndexedValueType{}
	for name, kind := range attributes {
		value, err := enums.IndexedValueTypeFromString(kind)
		if err != nil {
			return nil, err
		}
		is, there := have.GetCustomAttributes()[name]
		if there && is != value {
			return nil, fmt.Errorf("search attribute %s is of type %s in namespace %s, it must be %s", name, is, namespace, kind)
		}
		if !there {
			missing[name] = value
		}
	}
	return missing, nil
}

func keys(m map[string]enums.IndexedValueType) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

// WorkflowURL is a workflow's page in the Temporal UI at base; empty without a UI.
func WorkflowURL(base, namespace, workflowID string) string {
	if base == "" {
		return ""
	}
	return base + "/namespaces/" + url.PathEscape(namespace) + "/workflows/" + url.PathEscape(workflowID)
}
