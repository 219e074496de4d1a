package transfer

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/stock"
)

// Driver runs the flow of a transfer in mode tcc.
type Driver interface {
	// StartTransfer starts or finds the flow. resume: the row was read unended after its flow should have ended, so a
	// closed flow of that id may run again. run names what was started or found, empty where that is not known.
	StartTransfer(ctx context.Context, t Transfer, resume bool) (run string, err error)
}

// Service carries transfers out, with the engine's role.
type Service struct {
	pool   *pgxpool.Pool
	box    *sealed.Box
	driver Driver
	log    *zap.Logger
	now    func() time.Time
	trying time.Duration // how long a transfer may be TRYING before the re-drive takes it
}

// NewService takes the engine's pool; now is the clock of deadlines, nil the real one.
func NewService(pool *pgxpool.Pool, box *sealed.Box, driver Driver, log *zap.Logger, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{pool, box, driver, log, now, tryingDeadline}
}

// RedriveAfter replaces the deadline of TRYING.
func (s *Service) RedriveAfter(d time.Duration) *Service {
	s.trying = d
	return s
}

// Deadlines after which the re-drive looks at a transfer that has not ended.
const (
	tryingDeadline = 60 * time.Second
	endingDeadline = 5 * time.Minute
	startTimeout   = 500 * time.Millisecond
	retryDeadline  = 5 * time.Second
)

//go:embed sql/transfer.sql
var transferSQL string

//go:embed sql/create.sql
var createSQL string

//go:embed sql/end_direct.sql
var endDirectSQL string

// Create carries a direct transfer out, or begins a TCC one; created is false when it was there before, and it comes back
// as it is now. A refusal such as too little money is an outcome, kept with the transfer (state CANCELLED, its code in
// Failure), and the answer to every repeat. then runs last in the transaction that carries a direct one out. Errors: [ErrInvalid], [ErrKeyReused], [ErrReferenceReused], [ledger.ErrNoAccount],
// [stock.ErrUnknownSKU], [ErrUnknownParticipant].
func (s *Service) Create(ctx context.Context, r Request, then ...Then) (t Transfer, created bool, err error) {
	mode, err := r.valid()
	if err != nil {
		return Transfer{}, false, err
	}
	fingerprint, legs, err := r.fingerprint(mode)
	if err != nil {
		return Transfer{}, false, err
	}
	t, created, err = s.makeOrFind(ctx, r, mode, fingerprint, legs, then)
	if err != nil {
		return Transfer{}, false, fmt.Errorf("transfer: %w", err)
	}
	if created && mode == TCC {
		t.RunID, _ = s.start(ctx, t, false)
	}
	return t, created, nil
}

// Then runs last in a transaction, with the transfer as it is after it.
type Then func(tx pgx.Tx, t Transfer) error

// makeAttempts bounds how often a transfer is begun whose legs name something that was missing and has come meanwhile.
const makeAttempts = 3

func (s *Service) makeOrFind(ctx context.Context, r Request, mode Mode, fingerprint, legs []byte, then []Then) (t Transfer, created bool, err error) {
	for range makeAttempts {
		t, created, err = s.make(ctx, r, mode, fingerprint, legs, then)
		if err != nil || created {
			return t, created, err
		}
		err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
			t, err = s.existing(ctx, tx, r, fingerprint)
			if !errors.Is(err, ErrNotFound) {
				return err
			}
			return cmp.Or(errors.Join(accountsExist(ctx, tx, r), skusExist(ctx, tx, r), participantsExist(ctx, tx, r)), ErrNotFound)
		})
		if !errors.Is(err, ErrNotFound) {
			return t, false, err
		}
	}
	return t, false, err
}

// errNotMade says that a transfer could not be begun: its name is taken, or something that its legs name is missing.
var errNotMade = errors.New("the transfer was not made")

// make begins a transfer, and carries a direct one out in the same transaction; made is false when nothing was done.
func (s *Service) make(ctx context.Context, r Request, mode Mode, fingerprint, legs []byte, then []Then) (t Transfer, made bool, err error) {
	if mode == TCC {
		t, err = s.makeAndTry(ctx, r, fingerprint, legs)
	} else {
		err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
			if t, err = s.begin(ctx, tx, r, mode, fingerprint, legs); err != nil {
				return err
			}
			err := s.carryOut(ctx, tx, &t, r)
			return database.Last(err, then, func(do Then) error { return do(tx, t) })
		})
	}
	if errors.Is(err, errNotMade) {
		return Transfer{}, false, nil
	}
	return t, err == nil, err
}

// makeAndTry makes a transfer and, where money is all that it moves, tries it in the same round trip and transaction. One that
// cannot be tried is made all the same: its flow tries it again, and is told why not.
func (s *Service) makeAndTry(ctx context.Context, r Request, fingerprint, legs []byte) (t Transfer, err error) {
	money := !slices.ContainsFunc(r.Legs, func(l Leg) bool { return l.Type != LedgerLeg })
	for {
		err = database.InOneTrip(ctx, s.pool, func(q database.Querier) error {
			var batch pgx.Batch
			batch.Queue(createSQL, s.createArgs(r, TCC, fingerprint, legs)...).Query(func(rows pgx.Rows) error {
				t, err = exactlyOne(rows)
				return err
			})
			tried := false
			if money {
				batch.Queue(tryMadeSQL, gid(r), int64(headroom), Trying).Exec(func(tag pgconn.CommandTag) error {
					tried = tag.RowsAffected() == 1
					return nil
				})
			}
			err := q.SendBatch(ctx, &batch).Close()
			t.Tried = tried
			return err
		})
		if !money || ledger.Refusal(err) == nil {
			return t, notMade(err)
		}
		money = false // a guard refused it after all, and with it the row
	}
}

// begin makes the row and takes the request's names. Error: [errNotMade].
func (s *Service) begin(ctx context.Context, tx pgx.Tx, r Request, mode Mode, fingerprint, legs []byte) (Transfer, error) {
	t, err := one(ctx, tx, createSQL, s.createArgs(r, mode, fingerprint, legs)...)
	return t, notMade(err)
}

func (s *Service) createArgs(r Request, mode Mode, fingerprint, legs []byte) []any {
	intoOurs := slices.ContainsFunc(r.Legs, func(l Leg) bool { return l.Type == LedgerLeg && l.Amount > 0 && ledger.WellKnown(l.Account) })
	return []any{r.TenantID, orNil(r.Reference), orNil(r.IdempotencyKey), fingerprint, mode, legs, s.now().Add(s.trying), intoOurs}
}

func notMade(err error) error {
	if errors.Is(err, ErrNotFound) || database.Violated(err, "transfer_keys_pkey") {
		return errNotMade
	}
	return err
}

// gid is the name that the table makes of the request's.
func gid(r Request) string {
	if r.Reference != "" {
		return "transfer/" + r.TenantID + "/ref:" + r.Reference
	}
	return "transfer/" + r.TenantID + "/key:" + r.IdempotencyKey
}

// takeKey notes that the request's key names this transfer, for ever. Guard: the primary key.
func takeKey(ctx context.Context, tx pgx.Tx, r Request, id int64) (mine bool, err error) {
	if r.IdempotencyKey == "" {
		return true, nil
	}
	var owner int64
	err = tx.QueryRow(ctx, "INSERT INTO transfer_keys (tenant_id, key, transfer_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING transfer_id", r.TenantID, r.IdempotencyKey, id).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		err = tx.QueryRow(ctx, "SELECT transfer_id FROM transfer_keys WHERE tenant_id = $1 AND key = $2", r.TenantID, r.IdempotencyKey).Scan(&owner)
	}
	if err != nil {
		return false, fmt.Errorf("take the idempotency key: %w", err)
	}
	return owner == id, nil
}

// existing finds the transfer that has the request's names, and lets its key name it as well.
func (s *Service) existing(ctx context.Context, tx pgx.Tx, r Request, fingerprint []byte) (Transfer, error) {
	t, err := one(ctx, tx, transferSQL+" WHERE id = (SELECT transfer_id FROM transfer_keys WHERE tenant_id = $1 AND key = $2)", r.TenantID, r.IdempotencyKey)
	if err == nil {
		// A key names the whole request, reference included.
		if !bytes.Equal(t.Fingerprint, fingerprint) || deref(t.Reference) != r.Reference {
			return Transfer{}, ErrKeyReused
		}
		return t, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return Transfer{}, err
	}
	if t, err = one(ctx, tx, transferSQL+" WHERE tenant_id = $1 AND reference = $2", r.TenantID, r.Reference); err != nil {
		return Transfer{}, err
	}
	if !bytes.Equal(t.Fingerprint, fingerprint) {
		return Transfer{}, ErrReferenceReused
	}
	mine, err := takeKey(ctx, tx, r, t.ID)
	if err == nil && !mine {
		err = ErrKeyReused
	}
	return t, err
}

// carryOut does all legs at once. What is refused leaves nothing behind but its code.
func (s *Service) carryOut(ctx context.Context, tx pgx.Tx, t *Transfer, r Request) error {
	// A savepoint: the refusal is recorded by the transaction that it refuses.
	err := pgx.BeginFunc(ctx, tx, func(sp pgx.Tx) error {
		money, goods, _ := split(r.Legs)
		if err := stock.Reserve(ctx, sp, r.TenantID, t.GID, goods); err != nil {
			return err
		}
		if len(goods) > 0 {
			if err := stock.Confirm(ctx, sp, r.TenantID, t.GID, len(stock.Sorted(goods))); err != nil {
				return err
			}
		}
		return postLegs(ctx, sp, *t, money, false)
	})
	code := refusal(err)
	if err != nil && code == "" {
		return err
	}
	state := Confirmed
	if code != "" {
		state = Cancelled
	}
	*t, err = one(ctx, tx, endDirectSQL, t.ID, state, orNil(code))
	return err
}

// postLegs books the money of a transfer as one journal; captured says that the payers' amounts are on hold.
func postLegs(ctx context.Context, tx pgx.Tx, t Transfer, money []Leg, captured bool) error {
	if len(money) == 0 {
		return nil
	}
	j := ledger.Journal{TenantID: t.TenantID, Key: t.GID, Kind: "transfer", Lines: linesOf(money)}
	for i, l := range money {
		if captured && l.Amount < 0 {
			j.Lines[i].Held = l.Amount
		}
	}
	_, posted, err := ledger.Post(ctx, tx, j)
	if err == nil && !posted {
		return fmt.Errorf("journal %s is there, though the transfer is not confirmed", j.Key)
	}
	return err
}

// accountsExist refuses a transfer before it is one: no account is made by naming it.
func accountsExist(ctx context.Context, tx pgx.Tx, r Request) error {
	money, _, _ := split(r.Legs)
	lines := linesOf(money)
	named, err := ledger.Look(ctx, tx, r.TenantID, lines)
	if err != nil {
		return err
	}
	for i := range lines {
		lines[i].AllowNegative = named[i].AllowNegative
	}
	if ledger.Mints(lines) {
		return fmt.Errorf("%w: an account that may go negative cannot pay into one of paylatch's own", ErrInvalid)
	}
	return nil
}

// skusExist refuses a transfer of goods that the tenant does not have.
func skusExist(ctx context.Context, tx pgx.Tx, r Request) error {
	_, goods, _ := split(r.Legs)
	for _, item := range goods {
		if _, err := stock.Get(ctx, tx, r.TenantID, item.SKU); err != nil {
			return err
		}
	}
	return nil
}

// linesOf gives the legs' accounts the form that the ledger takes.
func linesOf(money []Leg) []ledger.Line {
	lines := make([]ledger.Line, len(money))
	for i, l := range money {
		lines[i] = ledger.Line{Code: l.Account, Currency: l.Currency, Amount: l.Amount}
	}
	return lines
}

// start hands a transfer to its flow. A failure is harmless: the row is durable, and the re-drive starts it a little later.
func (s *Service) start(ctx context.Context, t Transfer, resume bool) (run string, started bool) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	run, err := s.driver.StartTransfer(bounded, t, resume)
	if err == nil {
		return run, true
	}
	s.log.Warn("the engine did not take a transfer; the re-drive will start it", zap.String("tenant", t.TenantID), zap.Int64("transfer", t.ID), zap.Error(err))
	s.soon(ctx, t)
	return "", false
}

// soon makes the re-drive take transfers a little later, instead of at their deadline.
func (s *Service) soon(ctx context.Context, list ...Transfer) {
	var ids []int64
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, "UPDATE transfers SET next_drive_at = $2 WHERE id = ANY($1) AND ended_at IS NULL", ids, s.now().Add(retryDeadline)); err != nil {
		s.log.Warn("transfers keep their full deadline", zap.Int64s("transfers", ids), zap.Error(err))
	}
}

// Find reads a transfer of a tenant. Error: [ErrNotFound].
func Find(ctx context.Context, q database.Querier, tenantID string, id int64) (Transfer, error) {
	return one(ctx, q, transferSQL+" WHERE tenant_id = $1 AND id = $2", tenantID, id)
}

func read(ctx context.Context, tx pgx.Tx, id int64) (Transfer, error) {
	return one(ctx, tx, transferSQL+" WHERE id = $1", id)
}

func one(ctx context.Context, q database.Querier, query string, args ...any) (Transfer, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return Transfer{}, fmt.Errorf("read a transfer: %w", err)
	}
	return exactlyOne(rows)
}

func exactlyOne(rows pgx.Rows) (Transfer, error) {
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Transfer])
	if errors.Is(err, pgx.ErrNoRows) {
		return Transfer{}, ErrNotFound
	}
	if err != nil {
		return Transfer{}, fmt.Errorf("read a transfer: %w", err)
	}
	return t, nil
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
