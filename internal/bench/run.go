package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Run is what one call of the command saw, and where.
type Run struct {
	At          time.Time `json:"at"`
	TookSeconds float64   `json:"took_seconds"`
	Machine     Machine   `json:"machine"`
	Asked       Asked     `json:"asked"`
	// Invariants is "hold": a run that breaks one fails, and writes nothing.
	Invariants string    `json:"invariants"`
	Benchmarks []*Report `json:"benchmarks"`
}

// Asked is what the flags said.
type Asked struct {
	N           int     `json:"n,omitempty"`
	Channel     string  `json:"channel,omitempty"`
	Concurrency int     `json:"concurrency"`
	Duplicates  int     `json:"duplicates,omitempty"`
	Acks        int     `json:"acks,omitempty"`
	Seconds     float64 `json:"seconds,omitempty"`
	Grow        int     `json:"grow,omitempty"`
}

// Machine is what a rate says more about than about paylatch.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql,omitempty"`
	Temporal   string `json:"temporal,omitempty"`
}

// NewRun asks the servers for their versions; a client that is nil stands for no engine.
func NewRun(ctx context.Context, ownerURL string, engine client.Client, asked Asked) (*Run, error) {
	r := &Run{At: time.Now().UTC(), Asked: asked, Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}}
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&r.Machine.PostgreSQL); err != nil {
		return nil, fmt.Errorf("ask the database for its version: %w", err)
	}
	if engine == nil {
		return r, nil
	}
	info, err := engine.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask Temporal for its version: %w", err)
	}
	r.Machine.Temporal = info.ServerVersion
	return r, nil
}

// End says that all is measured and verified.
func (r *Run) End(reports ...*Report) {
	r.Benchmarks, r.Invariants, r.TookSeconds = reports, "hold", time.Since(r.At).Seconds()
}

// Where is the run in a line.
func (r *Run) Where() string {
	text := fmt.Sprintf("%s, %d CPUs, %s, PostgreSQL %s", r.At.Format(time.DateOnly), r.Machine.CPUs, r.Machine.OS+"/"+r.Machine.Arch, r.Machine.PostgreSQL)
	if r.Machine.Temporal != "" {
		text += ", Temporal " + r.Machine.Temporal
	}
	return text
}
