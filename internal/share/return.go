package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
)

// Return is what one refund takes back of one leg. Amount is in minor units of Currency.
type Return struct {
	ID            int64       `db:"id"`
	TenantID      string      `db:"tenant_id"`
	LegID         int64       `db:"leg_id"`
	RefundID      int64       `db:"refund_id"`
	OutRefundNo   string      `db:"out_refund_no"`
	RefundState   string      `db:"refund_state"`
	Amount        int64       `db:"amount"`
	State         ReturnState `db:"state"`
	Reason        string      `db:"reason"`
	OutReturnNo   string      `db:"out_return_no"`
	Attempt       int         `db:"attempt"`
	ReturnID      string      `db:"return_id"`
	Sends         int         `db:"sends"`
	Collecting    bool        `db:"collecting"`
	CreatedAt     time.Time   `db:"created_at"`
	ShareRow      int64       `db:"share_row"`
	OutOrderNo    string      `db:"out_order_no"`
	ShareID       string      `db:"share_id"`
	PaymentID     int64       `db:"payment_id"`
	AccountID     int64       `db:"account_id"`
	Channel       string      `db:"channel"`
	TransactionID string      `db:"transaction_id"`
	Currency      string      `db:"currency"`
	OutTradeNo    string      `db:"out_trade_no"`
	Reference     string      `db:"channel_reference"`
	Account       string      `db:"account"`
	Type          string      `db:"type"`
}

func returns(ctx context.Context, db payment.Querier, where string, args ...any) ([]Return, error) {
	rows, err := db.Query(ctx, returnSQL+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read returns: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Return])
	if err != nil {
		return nil, fmt.Errorf("read returns: %w", err)
	}
	return list, nil
}

// Fund sets an amount aside for a refund, out of the merchant's money: what has just come back, or what a receiver does not
// give. It runs in the transaction that books it, with the payment locked. Error: what keeps the refund from going out.
type Fund func(ctx context.Context, tx pgx.Tx, amount int64) error

// fundNothing is the [Fund] of a refund that has ended, or will.
func fundNothing(context.Context, pgx.Tx, int64) error { return nil }

// GiveBack tells the receivers of a refund's returns to give back, or asks what became of that, each once, as far as the time
// of ctx reaches. open says that some have not answered: call again. Who definitely does not give back will owe it, and the
// merchant pays. Error: fund's, or the database's.
func (s *Service) GiveBack(ctx context.Context, refundID int64, fund Fund) (open bool, err error) {
	list, err := returns(ctx, s.pool, " WHERE r.refund_id = $1 AND r.state = 'PENDING' AND NOT r.collecting ORDER BY r.id", refundID)
	if err != nil {
		return false, err
	}
	return s.askReturns(ctx, list, fund)
}

// returnReserve is the time that one more call may take.
const returnReserve = 9 * time.Second

func (s *Service) askReturns(ctx context.Context, list []Return, fund Fund) (open bool, err error) {
	for _, r := range list {
		if until, bounded := ctx.Deadline(); bounded && time.Until(until) < returnReserve {
			return true, nil
		}
		ended, err := s.askReturn(ctx, r, fund)
		if err != nil {
			return true, err
		}
		open = open || !ended
	}
	return open, nil
}

// askReturn has the channel told or asked once, and books what it says.
func (s *Service) askReturn(ctx context.Context, r Return, fund Fund) (ended bool, err error) {
	acct, err := s.accounts.ByID(ctx, r.AccountID)
	if err != nil {
		return false, err
	}
	standing := channel.ReturnStanding{State: channel.ReturnFailed, Reason: channel.ErrUnsupported.Error()}
	if acquirer, asks := acct.Account.(channel.Acquirer); asks {
		var sends int
		err := s.pool.QueryRow(ctx, sendReturnSQL, r.ID, s.now().Add(s.rests)).Scan(&sends)
		if errors.Is(err, pgx.ErrNoRows) {
			return true, nil // it has ended meanwhile
		}
		if err != nil {
			return false, fmt.Errorf("note that return %s is sent: %w", r.OutReturnNo, err)
		}
		standing, err = s.returnStanding(ctx, acquirer, r, sends == 1)
		if err != nil {
			return false, s.returnUnheard(ctx, r, err)
		}
	}
	switch standing.State {
	case channel.ReturnSucceeded:
		return true, s.inReturn(ctx, r, func(tx pgx.Tx, r Return) error { return s.comeBack(ctx, tx, r, standing, fund) })
	case channel.ReturnFailed:
		failed := func(fund Fund) error {
			return s.inReturn(ctx, r, func(tx pgx.Tx, r Return) error { return s.notGiven(ctx, tx, r, plain(standing.Reason), fund) })
		}
		err := failed(fund)
		if errors.Is(err, ledger.ErrInsufficient) {
			// It is not given all the same.
			err = errors.Join(err, failed(fundNothing))
		}
		return true, err
	default:
		return false, nil
	}
}

// returnStanding tells the channel of a return for the first time, or asks for it and tells it again when the channel does not
// have it. A definite refusal of one that the channel does not have is a failure. Error: whatever leaves it unknown.
func (s *Service) returnStanding(ctx context.Context, a channel.Acquirer, r Return, first bool) (channel.ReturnStanding, error) {
	request := channel.ShareReturn{
		OutReturnNo: r.OutReturnNo, OutOrderNo: r.OutOrderNo, ShareID: r.ShareID, TransactionID: r.TransactionID, OutTradeNo: r.OutTradeNo,
		Reference: r.Reference, Type: r.Type, Account: r.Account, Amount: r.Amount, Currency: r.Currency, Reason: "refund " + r.OutRefundNo,
	}
	if !first {
		standing, err := a.QueryReturn(ctx, request)
		switch {
		case errors.Is(err, channel.ErrUnsupported):
		case err != nil:
			return standing, fmt.Errorf("ask about return %s: %s", r.OutReturnNo, err)
		case standing.State != channel.ReturnUnknown:
			return standing, nil
		}
	}
	standing, err := told(ctx, s, tellReturnSQL, r.ID, func() (channel.ReturnStanding, error) { return a.ReturnShare(ctx, request) })
	if channel.Definite(err) {
		return channel.ReturnStanding{State: channel.ReturnFailed, Reason: err.Error()}, nil
	}
	return standing, err
}

func (s *Service) returnUnheard(ctx context.Context, r Return, why error) error {
	s.log.Warn("what became of a return is unknown; the channel will be asked", zap.String("tenant", r.TenantID), zap.String("return", r.OutReturnNo), zap.Error(why))
	_, err := s.pool.Exec(ctx, "UPDATE share_returns SET reason = $2 WHERE id = $1 AND (state = 'PENDING' OR collecting)", r.ID, plain(why.Error()))
	if err != nil {
		return fmt.Errorf("note that return %s is unknown: %w", r.OutReturnNo, err)
	}
	return nil
}

// inReturn books the end of a return under the locks of its payment and its row; one that has ended meanwhile is left as it is.
func (s *Service) inReturn(ctx context.Context, r Return, book func(pgx.Tx, Return) error) error {
	err := database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT FROM payments WHERE id = $1 FOR UPDATE", r.PaymentID); err != nil {
			return fmt.Errorf("lock the payment: %w", err)
		}
		now, err := returns(ctx, tx, " WHERE r.id = $1 FOR UPDATE OF r", r.ID)
		if err != nil {
			return err
		}
		if len(now) != 1 || now[0].State != ReturnPending && !now[0].Collecting {
			return nil
		}
		return book(tx, now[0])
	})
	if err != nil {
		return fmt.Errorf("book the end of return %s: %w", r.OutReturnNo, err)
	}
	return nil
}

// comeBack books what a receiver gave back: from its account, or from what it owed, to the merchant's.
func (s *Service) comeBack(ctx context.Context, tx pgx.Tx, r Return, standing channel.ReturnStanding, fund Fund) error {
	from, to := ReceiverCode(r.Account), Returned
	if r.State == ReturnOwed {
		from, to = ReceivableCode(r.Account), ReturnCleared
	}
	id, err := post(ctx, tx, r, KindReturn, "share_return:"+r.OutReturnNo, from, "merchant")
	if err != nil {
		return err
	}
	if err := exactly(ctx, tx, "mark the return", returnedSQL, r.ID, to, id, plain(standing.ReturnID), s.now(), r.State); err != nil {
		return err
	}
	if to == Returned && !r.Collecting {
		return fund(ctx, tx, r.Amount)
	}
	return net(ctx, tx, r.TenantID, r.PaymentID, r.Currency, r.Amount, "return "+r.OutReturnNo+" came back", s.now())
}

// notGiven ends a return that the receiver definitely does not give. Before the refund the merchant pays instead, and the
// receiver will owe it; after a refund that failed nothing is taken back; what is owed stays owed, and can be collected again.
func (s *Service) notGiven(ctx context.Context, tx pgx.Tx, r Return, reason string, fund Fund) error {
	switch {
	case r.RefundState == refundFailed:
		return void(ctx, tx, r, reason, s.now())
	case r.State == ReturnOwed:
		return exactly(ctx, tx, "stop collecting", moveReturnSQL, r.ID, ReturnOwed, reason, false, s.now(), ReturnOwed)
	}
	if err := exactly(ctx, tx, "let the return be due", moveReturnSQL, r.ID, ReturnDue, reason, false, s.now(), ReturnPending); err != nil {
		return err
	}
	return fund(ctx, tx, r.Amount)
}

// refundFailed is the state of a refund that has failed.
const refundFailed = "FAILED"
