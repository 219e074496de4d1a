package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/database"
)

// Posted is what became of one journal of many.
type Posted struct {
	JournalID int64
	// New is false when a journal with this key was there before.
	New bool
	Err error
}

//go:embed sql/post_many.sql
var postManySQL string

// PostMany books many journals, as few transactions as it can, each for itself: its own key, its own outcome. What cannot
// be booked together is booked alone, so that one bad journal never fails its neighbours. The order of the list counts
// only between journals of one key: the first one books.
func PostMany(ctx context.Context, pool *pgxpool.Pool, journals []Journal) []Posted {
	results := make([]Posted, len(journals))
	type name struct{ tenant, key string }
	seen := map[name]bool{}
	var together, alone []int
	for i := range journals {
		lines, err := merge(journals[i].Lines)
		if err != nil {
			results[i].Err = err
			continue
		}
		journals[i].Lines = lines
		n := name{journals[i].TenantID, journals[i].Key}
		if seen[n] || takes(lines) {
			alone = append(alone, i)
		} else {
			together = append(together, i)
		}
		seen[n] = true
	}
	if len(together) > 0 && postTogether(ctx, pool, journals, together, results) != nil {
		alone = append(together, alone...)
	}
	for _, i := range alone {
		results[i] = postAlone(ctx, pool, journals[i])
	}
	return results
}

// Same tells whether a journal holds just these lines: a key that is there must name the same fact.
func Same(ctx context.Context, tx pgx.Tx, journalID int64, lines []Line) (bool, error) {
	want, err := merge(lines)
	if err != nil {
		return false, err
	}
	rows, err := tx.Query(ctx, `
SELECT a.code, a.currency, e.amount
  FROM entries e JOIN ledger_accounts a ON a.id = e.account_id
 WHERE e.journal_id = $1`, journalID)
	if err != nil {
		return false, fmt.Errorf("read journal %d: %w", journalID, err)
	}
	type key struct{ code, currency string }
	have := map[key]int64{}
	var k key
	var amount int64
	if _, err := pgx.ForEachRow(rows, []any{&k.code, &k.currency, &amount}, func() error {
		have[k] = amount
		return nil
	}); err != nil {
		return false, fmt.Errorf("read journal %d: %w", journalID, err)
	}
	for _, l := range want {
		if have[key{l.Code, l.Currency}] != l.Amount {
			return false, nil
		}
	}
	return len(have) == len(want), nil
}

// takes tells whether a journal takes from an account that may not go negative: such a one is refused for itself.
func takes(lines []Line) bool {
	for _, l := range lines {
		if l.Amount < 0 && !l.AllowNegative {
			return true
		}
	}
	return false
}

func postAlone(ctx context.Context, pool *pgxpool.Pool, j Journal) (p Posted) {
	p.Err = database.InTx(ctx, pool, func(tx pgx.Tx) (err error) {
		p.JournalID, p.New, err = Post(ctx, tx, j)
		return err
	})
	return p
}

// postTogether fills in the results of the chosen journals, or fails as a whole and leaves nothing behind, as far as it
// knows: after a lost answer to the commit the keys say, one by one, what became of each. One statement is one transaction
// and one round trip. It counts on the accounts to be there; where one is missing, it makes them and goes again.
func postTogether(ctx context.Context, pool *pgxpool.Pool, journals []Journal, chosen []int, results []Posted) error {
	batch := newColumns(journals, chosen)
	posted := make([]Posted, len(chosen))
	err := batch.post(ctx, pool, posted)
	if missingAccount(err) {
		if _, err := pool.Exec(ctx, ensureManySQL, batch.lineTenants, batch.codes, batch.currency, batch.allow); err != nil {
			return fmt.Errorf("make the accounts of a batch: %w", err)
		}
		err = batch.post(ctx, pool, posted)
	}
	if err == nil {
		err = readExisting(ctx, pool, journals, chosen, posted)
	}
	if err != nil {
		return err
	}
	for k, i := range chosen {
		results[i] = posted[k]
	}
	return nil
}

// missingAccount tells whether an entry had no account to go to.
func missingAccount(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23502" && pg.TableName == "entries"
}

// readExisting fills in the journals that were there before, in a new statement.
func readExisting(ctx context.Context, pool *pgxpool.Pool, journals []Journal, chosen []int, posted []Posted) error {
	var at []int64
	var tenants, keys []string
	for k, i := range chosen {
		if !posted[k].New {
			at, tenants, keys = append(at, int64(k)), append(tenants, journals[i].TenantID), append(keys, journals[i].Key)
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := pool.Query(ctx, `
SELECT n.at, j.id FROM unnest($1::bigint[], $2::text[], $3::text[]) AS n (at, tenant_id, key)
  JOIN journals j ON j.tenant_id = n.tenant_id AND j.key = n.key`, at, tenants, keys)
	if err != nil {
		return fmt.Errorf("read the journals that are there: %w", err)
	}
	var k, id int64
	if _, err := pgx.ForEachRow(rows, []any{&k, &id}, func() error {
		posted[k].JournalID = id
		return nil
	}); err != nil {
		return fmt.Errorf("read the journals that are there: %w", err)
	}
	return nil
}

// batchColumns are journals and their lines as the arrays that one statement takes.
type batchColumns struct {
	tenants, keys, kinds         []string
	lineItems                    []int64
	lineNumbers                  []int16
	lineTenants, codes, currency []string
	amounts                      []int64
	allow                        []bool
}

func newColumns(journals []Journal, chosen []int) *batchColumns {
	c := &batchColumns{}
	for k, i := range chosen {
		j := journals[i]
		c.tenants, c.keys, c.kinds = append(c.tenants, j.TenantID), append(c.keys, j.Key), append(c.kinds, j.Kind)
		for n, l := range j.Lines {
			c.lineItems = append(c.lineItems, int64(k+1))
			c.lineNumbers = append(c.lineNumbers, int16(n+1))
			c.lineTenants = append(c.lineTenants, j.TenantID)
			c.codes, c.currency = append(c.codes, l.Code), append(c.currency, l.Currency)
			c.amounts, c.allow = append(c.amounts, l.Amount), append(c.allow, l.AllowNegative)
		}
	}
	return c
}

//go:embed sql/ensure_many.sql
var ensureManySQL string

func (c *batchColumns) post(ctx context.Context, pool *pgxpool.Pool, posted []Posted) error {
	err := database.InOneTrip(ctx, pool, func(q database.Querier) error {
		clear(posted)
		rows, err := q.Query(ctx, postManySQL, c.tenants, c.keys, c.kinds, c.lineItems, c.lineNumbers, c.codes, c.currency, c.amounts)
		if err != nil {
			return err
		}
		var n, id int64
		_, err = pgx.ForEachRow(rows, []any{&n, &id}, func() error {
			posted[n-1] = Posted{JournalID: id, New: true}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("post a batch: %w", err)
	}
	return nil
}

// PostingSQL gives the two statements of [Post], for a benchmark that runs them bare.
func PostingSQL() (ensureAccounts, post string) { return ensureAccountsSQL, postSQL }

// BareBatch runs the statement of a batch for journals that are known to be new, to balance and to take from nobody: the floor
// that [PostMany] is measured against, and a way to fill a ledger for a benchmark.
func BareBatch(ctx context.Context, pool *pgxpool.Pool, journals []Journal) error {
	chosen := make([]int, len(journals))
	for i := range chosen {
		chosen[i] = i
	}
	c := newColumns(journals, chosen)
	_, err := pool.Exec(ctx, postManySQL, c.tenants, c.keys, c.kinds, c.lineItems, c.lineNumbers, c.codes, c.currency, c.amounts)
	return err
}
