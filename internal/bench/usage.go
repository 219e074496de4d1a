package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// usage is how far the database's write-ahead log has come, and how big the database is. The log is the server's: what else
// works on it counts too.
type usage struct{ wal, size int64 }

func (h *house) usage(ctx context.Context) (u usage, err error) {
	err = h.owner.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_database_size(current_database())").Scan(&u.wal, &u.size)
	if err != nil {
		return u, fmt.Errorf("read how much the database has written: %w", err)
	}
	return u, nil
}

func (u usage) minus(o usage) usage { return usage{u.wal - o.wal, u.size - o.size} }
func (u usage) plus(o usage) usage  { return usage{u.wal + o.wal, u.size + o.size} }

// meter counts what a pool asks of the database. It is counted here and not read from the server, whose own counters lag and
// know autovacuum too.
type meter struct{ roundTrips, transactions atomic.Int64 }

// metered is what a meter had counted.
type metered struct{ roundTrips, transactions int64 }

func (m *meter) read() metered { return metered{m.roundTrips.Load(), m.transactions.Load()} }

func (m metered) minus(o metered) metered {
	return metered{m.roundTrips - o.roundTrips, m.transactions - o.transactions}
}

func (m metered) plus(o metered) metered {
	return metered{m.roundTrips + o.roundTrips, m.transactions + o.transactions}
}

// outside is PostgreSQL's sign for a session outside of a transaction: what is sent then begins one.
const outside = 'I'

func (m *meter) count(conn *pgx.Conn) {
	m.roundTrips.Add(1)
	if conn.PgConn().TxStatus() == outside {
		m.transactions.Add(1)
	}
}

// TraceQueryStart implements [pgx.QueryTracer].
func (m *meter) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	m.count(conn)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer]: a batch is one round trip.
func (m *meter) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	m.count(conn)
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (*meter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (*meter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

const mib = 1 << 20

// resetPeak lets the peak of the process begin anew, where the system can.
func resetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // without it the peak is that of the whole run
}

// peakMemory is the most that the process has held, in MiB: as the system counts it, else what Go has asked for.
func peakMemory() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		if kib, ok := peakOf(string(status)); ok {
			return kib / 1024
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys) / mib
}

func peakOf(status string) (kib float64, ok bool) {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib, err == nil
		}
	}
	return 0, false
}

// liveHeap is what the process holds on to, in bytes.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
