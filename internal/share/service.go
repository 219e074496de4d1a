package share

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

// Driver runs the flow of a sharing.
type Driver interface {
	// StartShare starts or finds the flow. resume: the row was read unended after its flow should have ended, so a closed flow
	// of that id may run again.
	StartShare(ctx context.Context, s Share, resume bool) error
	// AskShare does the same, and lets the flow ask the channel now instead of when its time comes.
	AskShare(ctx context.Context, s Share) error
	// StartReturns starts or finds the flow that asks receivers for what they owe.
	StartReturns(ctx context.Context, s Share) error
}

// Entry is the door by which what the channel answers comes in, as what it reports does.
type Entry interface {
	Report(ctx context.Context, acct tenant.Account, body []byte, at time.Time) ([]payment.Reported, error)
	RowCreated(ctx context.Context, tenantID string, parkedAs payment.Outcome, number string) error
}

// Service begins sharings and talks to the channels about them, with the engine's role.
type Service struct {
	pool     *pgxpool.Pool
	accounts *tenant.Accounts
	entry    Entry
	driver   Driver
	log      *zap.Logger
	now      func() time.Time
	rests    time.Duration // how long a sharing may rest before the re-drive looks at it
}

// NewService takes the engine's pool; now is the clock of deadlines, nil the real one.
func NewService(pool *pgxpool.Pool, accounts *tenant.Accounts, entry Entry, driver Driver, log *zap.Logger, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{pool, accounts, entry, driver, log, now, driveEvery}
}

// RedriveAfter replaces the time between two looks of the re-drive at a sharing that has not ended.
func (s *Service) RedriveAfter(d time.Duration) *Service {
	s.rests = d
	return s
}

// startTimeout bounds the hand-over to the engine.
const startTimeout = 500 * time.Millisecond

// Create begins a sharing: in one transaction its row and legs, what is set aside of the payment, and the hold on the
// merchant's money. created is false when the same request made it before, and it comes back as it is now.
// then runs last in the transaction.
// Errors: [ErrInvalid], [ErrNumberReused], [payment.ErrNotFound], [ErrNotPaid], [ErrNoPlan], [ErrPlanDiffers], [ErrNothing],
// [ErrExceedsLeft], [ErrFinished], [ledger.ErrInsufficient].
func (s *Service) Create(ctx context.Context, r Request, then ...Then) (sh Share, created bool, err error) {
	asked, err := r.valid()
	if err != nil {
		return Share{}, false, err
	}
	fingerprint, err := r.fingerprint()
	if err != nil {
		return Share{}, false, err
	}
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		// First the one that is there: a repeat does not depend on what the payment allows by now.
		created = false
		sh, err = s.existing(ctx, tx, r, fingerprint)
		if errors.Is(err, ErrNotFound) {
			sh, created, err = s.begin(ctx, tx, r, asked, fingerprint)
		}
		return last(tx, sh, created, err, then)
	})
	if database.Violated(err, "share_finish_once") {
		err = ErrFinished
	}
	if err != nil {
		return Share{}, false, fmt.Errorf("share payment %s as %s: %w", r.OutTradeNo, r.OutOrderNo, err)
	}
	if created {
		s.start(ctx, sh, func(ctx context.Context) error { return s.driver.StartShare(ctx, sh, false) })
		// Its results may have come before it. It is made: what is missed here the re-drive finds.
		if err := s.entry.RowCreated(ctx, sh.TenantID, payment.UnknownShare, sh.OutOrderNo); err != nil {
			s.log.Warn("events that came before their sharing wait for the re-drive", zap.String("tenant", sh.TenantID), zap.String("share", sh.OutOrderNo), zap.Error(err))
		}
	}
	return sh, created, nil
}

// Then runs last in the transaction of what a merchant asked for, with the sharing as it is after it.
type Then func(tx pgx.Tx, sh Share, created bool) error

func last(tx pgx.Tx, sh Share, created bool, err error, then []Then) error {
	return database.Last(err, then, func(do Then) error { return do(tx, sh, created) })
}

// existing finds the sharing that has the number. Errors: [ErrNotFound], [ErrNumberReused].
func (s *Service) existing(ctx context.Context, tx pgx.Tx, r Request, fingerprint []byte) (Share, error) {
	sh, err := one(ctx, tx, " WHERE s.tenant_id = $1 AND s.out_order_no = $2", r.TenantID, r.OutOrderNo)
	if err == nil && !bytes.Equal(sh.Fingerprint, fingerprint) {
		return Share{}, ErrNumberReused
	}
	return sh, err
}

// paid is a payment that is to be shared.
type paid struct {
	ID            int64           `db:"id"`
	Amount        int64           `db:"amount"`
	Currency      string          `db:"currency"`
	State         payment.State   `db:"state"`
	Refunded      int64           `db:"refunded"`
	Plan          json.RawMessage `db:"sharing_plan"`
	AccountID     int64           `db:"account_id"`
	TransactionID string          `db:"transaction_id"`
}

func lockPaid(ctx context.Context, tx pgx.Tx, tenantID, outTradeNo string) (paid, error) {
	rows, err := tx.Query(ctx, paymentSQL, tenantID, outTradeNo)
	if err != nil {
		return paid{}, fmt.Errorf("lock the payment: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[paid])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return paid{}, payment.ErrNotFound
	case err != nil:
		return paid{}, fmt.Errorf("lock the payment: %w", err)
	case p.State == payment.Pending || p.State == payment.Closed || p.AccountID == 0:
		return paid{}, ErrNotPaid
	}
	return p, nil
}

// begin divides the payment, whose row it locks first of all, and writes everything down.
func (s *Service) begin(ctx context.Context, tx pgx.Tx, r Request, asked *Plan, fingerprint []byte) (Share, bool, error) {
	p, err := lockPaid(ctx, tx, r.TenantID, r.OutTradeNo)
	if err != nil {
		return Share{}, false, err
	}
	of, err := dividedNow(ctx, tx, p)
	if err != nil {
		return Share{}, false, err
	}
	legs, err := r.legs(asked, of)
	if err != nil {
		return Share{}, false, err
	}
	now := s.now()
	var id int64
	err = tx.QueryRow(ctx, createSQL, r.TenantID, r.OutOrderNo, p.ID, p.AccountID, p.TransactionID, sum(legs), p.Currency, of.base,
		r.Finish, fingerprint, now, now.Add(s.rests)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		// Somebody took the number at this moment, for this sharing or another.
		sh, err := s.existing(ctx, tx, r, fingerprint)
		return sh, false, err
	}
	if err != nil {
		return Share{}, false, err
	}
	if err := putLegs(ctx, tx, id, r.TenantID, legs); err != nil {
		return Share{}, false, err
	}
	sh, err := one(ctx, tx, " WHERE s.id = $1", id)
	if err != nil {
		return Share{}, false, err
	}
	return sh, true, setAside(ctx, tx, sh)
}

func dividedNow(ctx context.Context, tx pgx.Tx, p paid) (divided, error) {
	of := divided{base: p.Amount - p.Refunded, had: map[string]int64{}}
	if len(p.Plan) > 0 {
		plan, err := ParsePlan(p.Plan)
		if err != nil {
			return divided{}, fmt.Errorf("the sharing plan of payment %d: %w", p.ID, err)
		}
		of.plan = &plan
	}
	rows, err := tx.Query(ctx, hadSQL, p.ID)
	if err != nil {
		return divided{}, fmt.Errorf("read what receivers have: %w", err)
	}
	var account string
	var amount int64
	_, err = pgx.ForEachRow(rows, []any{&account, &amount}, func() error {
		of.had[account] = amount
		return nil
	})
	if err != nil {
		return divided{}, fmt.Errorf("read what receivers have: %w", err)
	}
	return of, nil
}

func putLegs(ctx context.Context, tx pgx.Tx, shareID int64, tenantID string, legs []Leg) error {
	var accounts, types, names, descriptions []string
	var ratios []*int64
	var amounts []int64
	for _, l := range legs {
		accounts, types, names, descriptions = append(accounts, l.Account), append(types, l.Type), append(names, l.Name), append(descriptions, l.Description)
		ratios, amounts = append(ratios, l.Ratio), append(amounts, l.Amount)
	}
	if _, err := tx.Exec(ctx, createLegsSQL, shareID, tenantID, accounts, types, names, descriptions, ratios, amounts); err != nil {
		return fmt.Errorf("write the legs down: %w", err)
	}
	return nil
}

// setAside reserves the legs' sum of the payment, which is locked, and holds it on the merchant's account.
func setAside(ctx context.Context, tx pgx.Tx, sh Share) error {
	var finished bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM shares WHERE payment_id = $1 AND id <> $2 AND finish AND state <> 'REFUSED')", sh.PaymentID, sh.ID).Scan(&finished)
	if err != nil {
		return fmt.Errorf("look whether the sharing is finished: %w", err)
	}
	if finished {
		return ErrFinished
	}
	if sh.Amount == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, reserveSQL, sh.PaymentID, sh.Amount)
	if err != nil {
		return fmt.Errorf("reserve %d of the payment: %w", sh.Amount, err)
	}
	if tag.RowsAffected() == 0 {
		return ErrExceedsLeft
	}
	_, err = ledger.Place(ctx, tx, ledger.Hold{
		TenantID: sh.TenantID, Key: sh.holdKey(), Code: ledger.Merchant, Currency: sh.Currency, Amount: sh.Amount,
	})
	return err
}

// Find reads a sharing of a tenant. Error: [ErrNotFound].
func Find(ctx context.Context, db payment.Querier, tenantID, outOrderNo string) (Share, error) {
	return one(ctx, db, " WHERE s.tenant_id = $1 AND s.out_order_no = $2", tenantID, outOrderNo)
}

// Filter narrows a list; zero values do not. Before is the cursor: only rows with a smaller id.
type Filter struct {
	OutTradeNo string
	State      State
	Before     int64
	Limit      int
}

// List gives sharings, newest first.
func List(ctx context.Context, db payment.Querier, tenantID string, f Filter) ([]Share, error) {
	return many(ctx, db, ` WHERE s.tenant_id = $1 AND ($2::text = '' OR p.out_trade_no = $2) AND ($3::text = '' OR s.state = $3)
   AND ($4::bigint = 0 OR s.id < $4) ORDER BY s.id DESC LIMIT $5`, tenantID, f.OutTradeNo, f.State, f.Before, f.Limit)
}

// Retry takes a refused sharing up again under its own number, within what is left now, once its cause is gone. One that is
// under way is looked at now; one that has succeeded stays as it is. then runs last in the transaction.
// Errors: [ErrNotFound], [ErrNotRefused], [ErrExceedsLeft], [ErrFinished], [ledger.ErrInsufficient].
func (s *Service) Retry(ctx context.Context, tenantID, outOrderNo string, then ...Then) (sh Share, err error) {
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		sh, err = s.retry(ctx, tx, tenantID, outOrderNo)
		return last(tx, sh, false, err, then)
	})
	if database.Violated(err, "share_finish_once") {
		err = ErrFinished
	}
	if err != nil {
		return Share{}, fmt.Errorf("retry sharing %s: %w", outOrderNo, err)
	}
	if !sh.Ended() {
		s.start(ctx, sh, func(ctx context.Context) error { return s.driver.AskShare(ctx, sh) })
	}
	return sh, nil
}

func (s *Service) retry(ctx context.Context, tx pgx.Tx, tenantID, outOrderNo string) (Share, error) {
	sh, err := lockByNumber(ctx, tx, tenantID, outOrderNo)
	if err != nil || sh.State == Succeeded {
		return sh, err
	}
	if sh.Ended() {
		if sh.State != Refused {
			return Share{}, fmt.Errorf("%w: it is %s", ErrNotRefused, sh.State)
		}
		if sh, err = s.reopen(ctx, tx, sh); err != nil {
			return Share{}, err
		}
	}
	return sh, audit.Record(ctx, tx, tenantID, audit.ShareRetried, "sharing "+outOrderNo, "")
}

// reopen works on a refused sharing whose row is locked.
func (s *Service) reopen(ctx context.Context, tx pgx.Tx, sh Share) (Share, error) {
	now := s.now()
	tag, err := tx.Exec(ctx, reopenSQL, sh.ID, now, now.Add(s.rests))
	if err != nil {
		return Share{}, err
	}
	if tag.RowsAffected() != 1 {
		return Share{}, fmt.Errorf("reopen sharing %d: it is not refused, though its row is locked", sh.ID)
	}
	if _, err := tx.Exec(ctx, reopenLegsSQL, sh.ID); err != nil {
		return Share{}, err
	}
	if sh, err = one(ctx, tx, " WHERE s.id = $1", sh.ID); err != nil {
		return Share{}, err
	}
	return sh, setAside(ctx, tx, sh)
}

// start hands a sharing to its flow. A failure is harmless: the row is durable, and the re-drive starts it a little later.
func (s *Service) start(ctx context.Context, sh Share, hand func(context.Context) error) bool {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	err := hand(bounded)
	if err == nil {
		return true
	}
	s.log.Warn("the engine did not take a sharing; the re-drive will start it", zap.String("tenant", sh.TenantID), zap.String("share", sh.OutOrderNo), zap.Error(err))
	s.soon(ctx, sh)
	return false
}

// soon makes the re-drive take sharings, and what is collected of them, a little later, instead of at their deadline.
func (s *Service) soon(ctx context.Context, list ...Share) {
	var ids []int64
	for _, sh := range list {
		ids = append(ids, sh.ID)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, soonSQL, ids, s.now().Add(retryDeadline)); err != nil {
		s.log.Warn("sharings keep their full deadline", zap.Int64s("shares", ids), zap.Error(err))
	}
}
