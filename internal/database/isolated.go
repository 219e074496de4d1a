package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrNotIsolated says that the merchants' API would see all tenants: its login owns the tables, is a superuser, or has the
// engine's role.
var ErrNotIsolated = errors.New("row-level security does not bind the API's database role: it must be paylatch_api, or a login with that role alone")

// Isolated reports whether row-level security keeps what runs on db to one tenant. Error: [ErrNotIsolated].
func Isolated(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) error {
	var bound bool
	err := db.QueryRow(ctx, "SELECT row_security_active('tenants') AND NOT pg_has_role(current_user, $1, 'USAGE')", RoleEngine).Scan(&bound)
	if err != nil {
		return fmt.Errorf("ask whether row-level security is active: %w", err)
	}
	if !bound {
		return ErrNotIsolated
	}
	return nil
}
