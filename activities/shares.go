package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/workflows"
)

// Shares carries out the steps of profit sharings.
type Shares struct{ Service *share.Service }

// Look implements [workflows.ShareLookActivity].
func (s *Shares) Look(ctx context.Context, shareID int64) (workflows.ShareProgress, error) {
	p, err := s.Service.Look(ctx, shareID)
	return shareProgress(p), noShare(err)
}

// Call implements [workflows.ShareCallActivity].
func (s *Shares) Call(ctx context.Context, shareID int64) (workflows.ShareProgress, error) {
	p, err := s.Service.Call(ctx, shareID)
	return shareProgress(p), noShare(err)
}

// Collect implements [workflows.ShareCollectActivity].
func (s *Shares) Collect(ctx context.Context, shareID int64) (workflows.ReturnsProgress, error) {
	open, err := s.Service.AskOwed(ctx, shareID)
	return workflows.ReturnsProgress{Open: open}, err
}

func shareProgress(p share.Progress) workflows.ShareProgress {
	return workflows.ShareProgress{State: string(p.State), Ended: p.Ended, Channel: p.Channel}
}

// noShare marks an error that no retry will change.
func noShare(err error) error {
	if errors.Is(err, share.ErrNotFound) {
		return temporal.NewNonRetryableApplicationError("no such sharing", "ShareNotFound", err)
	}
	return err
}
