package idempotency_test

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statements tells of each statement of a pool, alone or in a batch, before it is sent and after its answer came.
type statements struct {
	begins, ended func(sql string)
}

type sentKey struct{}

func (s statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.begins(data.SQL)
	return context.WithValue(ctx, sentKey{}, data.SQL)
}

func (s statements) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	s.ended(ctx.Value(sentKey{}).(string))
}

func (s statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var all []string
	for _, q := range data.Batch.QueuedQueries {
		all = append(all, q.SQL)
	}
	sql := strings.Join(all, "; ")
	s.begins(sql)
	return context.WithValue(ctx, sentKey{}, sql)
}

func (s statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s statements) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	s.ended(ctx.Value(sentKey{}).(string))
}

// openTraced opens a pool whose statements are told of.
func openTraced(url string, trace statements) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.Tracer = trace
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// counter counts the statements that hold a text.
func counter(text string, n *atomic.Int32) statements {
	return statements{begins: func(string) {}, ended: func(sql string) {
		if strings.Contains(sql, text) {
			n.Add(1)
		}
	}}
}
