package chaos

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/engine"
)

//go:embed sql/unsettled.sql
var unsettledSQL string

// rest is what still moves.
type rest struct {
	Received, Unmatched, Expired, Refunds, Shares, Transfers int64
	Flows                                                    int64
}

func (r rest) quiet() bool { return r == rest{} }

func (r rest) String() string {
	return fmt.Sprintf("%d events to be booked, %d to be matched, %d orders to expire, %d refunds, %d sharings, %d transfers, %d flows",
		r.Received, r.Unmatched, r.Expired, r.Refunds, r.Shares, r.Transfers, r.Flows)
}

// awaitQuiet waits until nothing moves any more, and tells what still does when the time is over. Meanwhile it
// nudges what waits for a channel.
func awaitQuiet(ctx context.Context, db *pgxpool.Pool, temporal string, within time.Duration, l *load, tell func(string, ...any)) error {
	options, err := engine.Options(temporal, zap.NewNop())
	if err != nil {
		return err
	}
	flows, err := engine.Open(options)
	if err != nil {
		return err
	}
	defer flows.Close()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var left rest
	for told := time.Now(); ; {
		if left, err = look(ctx, db, flows); err == nil && left.quiet() {
			return nil
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			tell("waiting for quiet: %s", left)
			l.nudge(ctx)
		}
		if !sleep(ctx, 250*time.Millisecond) {
			if err != nil && left.quiet() {
				return fmt.Errorf("look what still moves: %w", err)
			}
			return fmt.Errorf("not quiet after %s: %s", within, left)
		}
	}
}

func look(ctx context.Context, db *pgxpool.Pool, flows client.Client) (r rest, err error) {
	if err := db.QueryRow(ctx, unsettledSQL).Scan(&r.Received, &r.Unmatched, &r.Expired, &r.Refunds, &r.Shares, &r.Transfers); err != nil {
		return r, err
	}
	running, err := flows.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'"})
	if err != nil {
		return r, err
	}
	r.Flows = running.GetCount()
	return r, nil
}
