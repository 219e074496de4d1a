package testhouse

import (
	"context"

	"github.com/paylatch/paylatch/internal/share"
)

// StartShare implements [share.Driver].
func (d *Deliveries) StartShare(_ context.Context, s share.Share, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Err != nil {
		return d.Err
	}
	d.shares = append(d.shares, s)
	return nil
}

// AskShare implements [share.Driver].
func (d *Deliveries) AskShare(ctx context.Context, s share.Share) error {
	return d.StartShare(ctx, s, true)
}

// StartReturns implements [share.Driver].
func (d *Deliveries) StartReturns(ctx context.Context, s share.Share) error {
	return d.StartShare(ctx, s, true)
}

// TakeShares gives the sharings that were to be started or asked about since the last call.
func (d *Deliveries) TakeShares() []share.Share {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.shares
	d.shares = nil
	return taken
}
