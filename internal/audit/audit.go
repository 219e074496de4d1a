// Package audit keeps on record what operators do: who, what, to what, when, and under which request. A record is written in
// the transaction of what it tells of, so that neither is there without the other, and is never changed.
package audit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/database"
)

// Action is what was done; its text is stable.
type Action string

// The actions that are on record.
const (
	TenantAdded            Action = "tenant_added"
	KeyCreated             Action = "api_key_created"
	KeyRevoked             Action = "api_key_revoked"
	ChannelAccountAdded    Action = "channel_account_added"
	ChannelAccountReplaced Action = "channel_account_replaced"
	EventReplayed          Action = "event_replayed"
	EventBookedToSuspense  Action = "event_booked_to_suspense"
	EventRejected          Action = "event_rejected"
	StockPut               Action = "stock_put"
	ParticipantPut         Action = "participant_put"
	PolicySet              Action = "policy_set"
	RefundRetried          Action = "refund_retried"
	SuspenseRefunded       Action = "suspense_refunded"
	ShareRetried           Action = "share_retried"
	ShareCollected         Action = "share_collected"
	ReceivableSettled      Action = "receivable_settled"
)

// Actor is who acts.
type Actor struct {
	// Name is the prefix of an API key, or the command line and its user.
	Name string
	// RequestID is the X-Request-Id under which the log knows it; empty on the command line.
	RequestID string
}

// Event names a channel event as a target.
func Event(id int64) string { return "event " + strconv.FormatInt(id, 10) }

type actorKey struct{}

// As gives a context in which actor acts.
func As(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// nobody is who acts where nobody said who does: the program by itself.
var nobody = Actor{Name: "paylatch"}

// Record writes down what the context's actor does within tx.
func Record(ctx context.Context, tx pgx.Tx, tenantID string, action Action, target, detail string) error {
	actor, ok := ctx.Value(actorKey{}).(Actor)
	if !ok {
		actor = nobody
	}
	_, err := tx.Exec(ctx, "INSERT INTO audit_log (tenant_id, actor, action, target, detail, request_id) VALUES ($1, $2, $3, $4, $5, $6)",
		tenantID, actor.Name, action, target, detail, actor.RequestID)
	if err != nil {
		return fmt.Errorf("record %s of %s: %w", action, target, err)
	}
	return nil
}

// Entry is one record.
type Entry struct {
	ID        int64     `db:"id"`
	At        time.Time `db:"at"`
	Actor     string    `db:"actor"`
	Action    Action    `db:"action"`
	Target    string    `db:"target"`
	Detail    string    `db:"detail"`
	RequestID string    `db:"request_id"`
}

// List gives a tenant's records, newest first; before is the cursor, 0 for the newest.
func List(ctx context.Context, pool *pgxpool.Pool, tenantID string, before int64, limit int) (list []Entry, err error) {
	err = database.InTenantTx(ctx, pool, tenantID, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
SELECT id, at, actor, action, target, detail, request_id FROM audit_log
 WHERE tenant_id = $1 AND ($2::bigint = 0 OR id < $2)
 ORDER BY id DESC LIMIT $3`, tenantID, before, limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByName[Entry])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what was done: %w", err)
	}
	return list, nil
}
