package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrBarred says that a branch was cancelled before its Try came: the Try must not happen any more, and must never be
	// answered as if it had.
	ErrBarred = errors.New("the branch was cancelled before it was tried")
	// ErrNotTried says that a Confirm came for a branch that nobody tried.
	ErrNotTried = errors.New("the branch was not tried")
	// ErrEndedOtherwise says that Confirm came after Cancel, or Cancel after Confirm.
	ErrEndedOtherwise = errors.New("the branch has ended the other way")
)

//go:embed sql/confirm.sql
var confirmSQL string

// Fence keeps the phases of one branch of a distributed transaction apart, whatever their order and number: one row
// decides between Try and an early Cancel, one between Confirm and Cancel. Its rows are written in the transaction of the
// business change, so both are there or neither. Only inserts that do nothing on conflict; no absent row is read or locked.
type Fence struct {
	// GID names the transaction: its workflow id, without an attempt number.
	GID string
	// Branch names the branch within it.
	Branch string
}

// Try runs do once; repeat is true when it ran before. Error: [ErrBarred], or do's own.
func (f Fence) Try(ctx context.Context, tx pgx.Tx, do func() error) (repeat bool, err error) {
	mine, by, err := f.mark(ctx, tx, "try", "try")
	switch {
	case err != nil:
		return false, err
	case mine:
		return false, do()
	case by == "cancel":
		return false, fmt.Errorf("try %s: %w", f, ErrBarred)
	default:
		return true, nil
	}
}

// Confirm runs do once; repeat is true when it ran before. Errors: [ErrNotTried], [ErrBarred], [ErrEndedOtherwise], or do's own.
func (f Fence) Confirm(ctx context.Context, tx pgx.Tx, do func() error) (repeat bool, err error) {
	var tried *string
	var mine bool
	if err := tx.QueryRow(ctx, confirmSQL, f.GID, f.Branch).Scan(&tried, &mine); err != nil {
		return false, fmt.Errorf("confirm %s: %w", f, err)
	}
	switch {
	case tried == nil:
		return false, fmt.Errorf("confirm %s: %w", f, ErrNotTried)
	case *tried == "cancel":
		return false, fmt.Errorf("confirm %s: %w", f, ErrBarred)
	case mine:
		return false, do()
	}
	return f.end(ctx, tx, "confirm", do)
}

// Cancel runs do once if the branch was tried; if it was not, it bars the Try that may still come, and that is all.
// Cancelling again succeeds. Error: [ErrEndedOtherwise], or do's own.
func (f Fence) Cancel(ctx context.Context, tx pgx.Tx, do func() error) (repeat bool, err error) {
	untried, by, err := f.mark(ctx, tx, "try", "cancel")
	if err != nil {
		return false, err
	}
	if untried || by == "cancel" {
		do = func() error { return nil } // nothing was tried, so there is nothing to undo
	}
	return f.end(ctx, tx, "cancel", do)
}

func (f Fence) end(ctx context.Context, tx pgx.Tx, by string, do func() error) (repeat bool, err error) {
	mine, other, err := f.mark(ctx, tx, "end", by)
	switch {
	case err != nil:
		return false, err
	case mine:
		return false, do()
	case other != by:
		return false, fmt.Errorf("%s %s: %w", by, f, ErrEndedOtherwise)
	default:
		return true, nil
	}
}

// mark inserts the row of a phase, or says who did. Guard: the primary key.
func (f Fence) mark(ctx context.Context, tx pgx.Tx, phase, by string) (mine bool, theirs string, err error) {
	tag, err := tx.Exec(ctx, "INSERT INTO fences (gid, branch, phase, by) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", f.GID, f.Branch, phase, by)
	if err != nil {
		return false, "", fmt.Errorf("%s %s: %w", by, f, err)
	}
	if tag.RowsAffected() == 1 {
		return true, by, nil
	}
	// The winner has committed, or the insert would still wait; a new statement sees its row.
	err = tx.QueryRow(ctx, "SELECT by FROM fences WHERE gid = $1 AND branch = $2 AND phase = $3", f.GID, f.Branch, phase).Scan(&theirs)
	if err != nil {
		return false, "", fmt.Errorf("%s %s: read who was first: %w", by, f, err)
	}
	return false, theirs, nil
}

func (f Fence) String() string { return f.GID + "/" + f.Branch }
