package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen says in plain words that a port is taken.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is taken: stop what uses it, or choose another with --http (port 0 picks a free one)", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}
