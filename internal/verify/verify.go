// Package verify holds the invariants of the books, as SQL that any operator can read. All are checked in one snapshot, so
// that running flows do not disturb the answer. Tests call it after every story.
package verify

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sql/*.sql
var files embed.FS

// MaxReported bounds how many violations of one invariant are listed.
const MaxReported = 100

// Invariant is one rule. Its query returns a line of text for each row that breaks it.
type Invariant struct {
	// Name is stable: the file's name without its number.
	Name string
	// Rule is the rule in words: the file's first comment.
	Rule string
	sql  string
}

// Violation is one row that breaks an invariant.
type Violation struct {
	Invariant string `json:"invariant"`
	What      string `json:"what"`
}

// Invariants lists all rules in the order in which they are checked.
func Invariants() []Invariant {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	var list []Invariant
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it was listed just now
		}
		rule, query, _ := strings.Cut(string(text), "\n")
		list = append(list, Invariant{
			Name: strings.TrimSuffix(name[len("sql/000_"):], ".sql"),
			Rule: strings.TrimPrefix(rule, "-- "),
			sql:  query,
		})
	}
	return list
}

// Grace is how long an event may be RECEIVED before that is a fault: twice its deadline, so that the re-drive has had its turn.
const Grace = 2 * time.Minute

// Run checks every invariant in one REPEATABLE READ READ ONLY snapshot, with a role that sees all tenants. begin is called
// before each check (nil: not at all). now is the clock that deadlines are measured by.
func Run(ctx context.Context, pool *pgxpool.Pool, now time.Time, begin func(Invariant)) (violations []Violation, err error) {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, pool, snapshot, func(tx pgx.Tx) error {
		for _, inv := range Invariants() {
			if begin != nil {
				begin(inv)
			}
			rows, err := tx.Query(ctx, inv.sql, pgx.NamedArgs{"overdue": now.Add(-Grace), "max": MaxReported})
			if err != nil {
				return fmt.Errorf("check %s: %w", inv.Name, err)
			}
			broken, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return fmt.Errorf("check %s: %w", inv.Name, err)
			}
			for _, what := range broken {
				violations = append(violations, Violation{inv.Name, what})
			}
		}
		return nil
	})
	return violations, err
}
