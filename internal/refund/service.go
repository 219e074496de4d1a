package refund

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
)

// Driver runs the flow of a refund.
type Driver interface {
	// StartRefund starts or finds the flow. resume: the row was read open after its flow should have ended it, so a closed flow
	// of that id may run again.
	StartRefund(ctx context.Context, r Ref, resume bool) error
	// WakeRefund makes the flow ask the channel now, and starts it where none runs.
	WakeRefund(ctx context.Context, r Ref) error
}

// Ref names a refund for a flow.
type Ref struct {
	RefundID    int64  `db:"id"`
	TenantID    string `db:"tenant_id"`
	OutRefundNo string `db:"out_refund_no"`
	OutTradeNo  string `db:"out_trade_no"`
	Channel     string `db:"channel"`
	Amount      int64  `db:"amount"`
	Currency    string `db:"currency"`
	State       State  `db:"state"`
}

// Service takes refunds and carries them out, with the engine's role.
type Service struct {
	pool      *pgxpool.Pool
	accounts  *tenant.Accounts
	entry     *payment.Entry
	driver    Driver
	shares    *share.Service
	publicURL string
	log       *zap.Logger
	now       func() time.Time
	restart   time.Duration
}

// Config is what a [Service] stands on. Entry must know the refunds' [Matter].
type Config struct {
	Pool     *pgxpool.Pool
	Accounts *tenant.Accounts
	Entry    *payment.Entry
	Driver   Driver
	// Shares takes back what receivers have of a payment.
	Shares *share.Service
	// PublicURL is the base that channels reach this installation's callbacks by, such as https://pay.example.com.
	PublicURL string
	Log       *zap.Logger
	Now       func() time.Time // the clock of deadlines; nil is the real one
	// RedriveAfter is how long after it should have moved a refund's flow is started again; 0 is 60 s.
	RedriveAfter time.Duration
}

// New makes a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{c.Pool, c.Accounts, c.Entry, c.Driver, c.Shares, c.PublicURL, c.Log, c.Now, cmp.Or(c.RedriveAfter, restartAfter)}
}

// Find reads a refund of a tenant. Error: [ErrNotFound].
func Find(ctx context.Context, db payment.Querier, tenantID, outRefundNo string) (Refund, error) {
	return one(ctx, db, "r.tenant_id = $1 AND r.out_refund_no = $2", tenantID, outRefundNo)
}

// Filter narrows a list; zero values do not. Before is the cursor: only rows with a smaller id.
type Filter struct {
	State      State
	OutTradeNo string
	Before     int64
	Limit      int
}

// List gives refunds of a tenant, newest first.
func List(ctx context.Context, db payment.Querier, tenantID string, f Filter) ([]Refund, error) {
	rows, err := db.Query(ctx, refundSQL+`
 WHERE r.tenant_id = $1 AND ($2::text = '' OR r.state = $2)
   AND ($3::text = '' OR coalesce(p.out_trade_no, e.out_trade_no) = $3) AND ($4::bigint = 0 OR r.id < $4)
 ORDER BY r.id DESC LIMIT $5`, tenantID, f.State, f.OutTradeNo, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Refund])
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	return list, nil
}

// Retry makes the flow of an open refund ask its channel now, and call it again under the same number where the channel does
// not know it. then runs last in the transaction that puts it on record. Errors: [ErrNotFound], [ErrEnded], and [channel.ErrUnsupported] where only a callback can end it.
func (s *Service) Retry(ctx context.Context, tenantID, outRefundNo string, then ...Then) (r Refund, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		r, err = Find(ctx, tx, tenantID, outRefundNo)
		switch {
		case err != nil:
			return err
		case r.State.Ended():
			return fmt.Errorf("refund %s is %s: %w", outRefundNo, r.State, ErrEnded)
		case !r.Asks:
			return fmt.Errorf("refund %s: %w", outRefundNo, channel.ErrUnsupported)
		}
		err = audit.Record(ctx, tx, tenantID, audit.RefundRetried, "refund "+outRefundNo, "")
		return last(tx, r, false, err, then)
	})
	if err != nil {
		return r, err
	}
	if err := s.hand(ctx, r.ref(), func(ctx context.Context) error { return s.driver.WakeRefund(ctx, r.ref()) }); err != nil {
		s.soon(ctx, r.ref())
	}
	return r, nil
}

// startTimeout bounds the hand-over of one refund to the engine; a refund that it did not take comes again after retryAfter,
// one whose flow should have moved it by now after restartAfter, unless the configuration says otherwise.
const (
	startTimeout = 500 * time.Millisecond
	retryAfter   = 5 * time.Second
	restartAfter = 60 * time.Second
)

// begun does what follows the commit of a new refund. Nothing here can fail it: what is missed the re-drive makes up for.
func (s *Service) begun(ctx context.Context, r Refund) {
	if err := s.entry.RowCreated(ctx, r.TenantID, payment.UnknownRefund, r.OutRefundNo); err != nil {
		s.log.Warn("events that came before their refund wait for the re-drive", zap.String("tenant", r.TenantID), zap.String("refund", r.OutRefundNo), zap.Error(err))
	}
	if r.Asks {
		s.start(ctx, r.ref(), false)
	}
}

// start hands a refund to its flow. A failure is harmless: the row is durable, and the re-drive starts it a little later.
func (s *Service) start(ctx context.Context, r Ref, resume bool) bool {
	err := s.hand(ctx, r, func(ctx context.Context) error { return s.driver.StartRefund(ctx, r, resume) })
	if err != nil {
		s.soon(ctx, r)
	}
	return err == nil
}

func (s *Service) hand(ctx context.Context, r Ref, over func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if s.driver == nil {
		return errors.New("there is no engine")
	}
	err := over(bounded)
	if err != nil {
		s.log.Warn("the engine did not take a refund; the re-drive will start it", zap.String("tenant", r.TenantID), zap.String("refund", r.OutRefundNo), zap.Error(err))
	}
	return err
}

// soon makes the re-drive take refunds before their deadline.
func (s *Service) soon(ctx context.Context, list ...Ref) {
	var ids []int64
	for _, r := range list {
		ids = append(ids, r.RefundID)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	_, err := s.pool.Exec(bounded, "UPDATE refunds SET next_drive_at = $2 WHERE id = ANY($1) AND state IN ('PENDING', 'UNKNOWN') AND asks", ids, s.now().Add(retryAfter))
	if err != nil {
		s.log.Warn("refunds keep their full deadline", zap.Int64s("refunds", ids), zap.Error(err))
	}
}

// inTx runs do in a transaction of the engine.
func (s *Service) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	return database.InTx(ctx, s.pool, do)
}
