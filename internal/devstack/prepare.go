package devstack

import (
	"context"
	"io"
)

// Prepare makes sure that PostgreSQL and Temporal are on this machine, downloading or building what is missing, and
// starts neither. After it no start has to fetch anything.
func Prepare(ctx context.Context, w io.Writer) error {
	say := progress{w}
	binDir, err := obtainPostgres(ctx, 0, say)
	if err != nil {
		return err
	}
	say.line("PostgreSQL: %s", binDir)
	file, err := obtainTemporal(ctx, say)
	if err != nil {
		return err
	}
	say.line("Temporal: %s", file)
	return nil
}
