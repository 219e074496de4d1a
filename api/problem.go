package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/stock"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/transfer"
)

// problem is an error as the client sees it (RFC 9457). Code is stable and meant for programs.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
}

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

func newProblem(status int, code, detail string) *problem {
	return &problem{"about:blank", http.StatusText(status), status, code, detail}
}

func badRequest(code, detail string) *problem { return newProblem(http.StatusBadRequest, code, detail) }

// known maps the errors of the packages below to what the client sees. Every error that a handler returns passes here.
var known = []struct {
	err    error
	status int
	code   string
}{
	{payment.ErrNotFound, http.StatusNotFound, "payment_not_found"},
	{payment.ErrNumberReused, http.StatusUnprocessableEntity, "out_trade_no_reused"},
	{payment.ErrAlreadyPaid, http.StatusConflict, "already_paid"},
	{payment.ErrIllegalMove, http.StatusConflict, "illegal_move"},
	{payment.ErrUnknownAccount, http.StatusNotFound, "channel_account_not_found"},
	{payment.ErrAmbiguousAccount, http.StatusBadRequest, "channel_account_ambiguous"},
	{payment.ErrEventNotFound, http.StatusNotFound, "event_not_found"},
	{payment.ErrNotParked, http.StatusConflict, "event_not_parked"},
	{payment.ErrNothingToBook, http.StatusConflict, "nothing_to_book"},
	{payment.ErrAlreadyBooked, http.StatusConflict, "already_booked"},
	{refund.ErrNotFound, http.StatusNotFound, "refund_not_found"},
	{refund.ErrPaymentNotFound, http.StatusNotFound, "payment_not_found"},
	{refund.ErrNumberReused, http.StatusUnprocessableEntity, "out_refund_no_reused"},
	{refund.ErrNumberReserved, http.StatusUnprocessableEntity, "out_refund_no_reserved"},
	{refund.ErrExceeds, http.StatusConflict, "refund_exceeds_captured"},
	{refund.ErrNotPaid, http.StatusConflict, "payment_not_paid"},
	{refund.ErrNotInSuspense, http.StatusConflict, "not_in_suspense"},
	{refund.ErrRefundedAlready, http.StatusConflict, "refunded_already"},
	{refund.ErrEnded, http.StatusConflict, "refund_ended"},
	{channel.ErrUnsupported, http.StatusConflict, "channel_cannot_be_asked"},
	{ledger.ErrNoAccount, http.StatusNotFound, "account_not_found"},
	{ledger.ErrOutOfRange, http.StatusUnprocessableEntity, "amount_out_of_range"},
	{ledger.ErrInsufficient, http.StatusConflict, "insufficient_funds"},
	{ledger.ErrUnbalanced, http.StatusUnprocessableEntity, "journal_unbalanced"},
	{ledger.ErrKeyReused, http.StatusUnprocessableEntity, "key_reused"},
	{stock.ErrUnknownSKU, http.StatusNotFound, "sku_not_found"},
	{stock.ErrOutOfStock, http.StatusConflict, "out_of_stock"},
	{stock.ErrBelowReserved, http.StatusConflict, "below_reserved"},
	{stock.ErrVersion, http.StatusConflict, "version_conflict"},
	{share.ErrNotFound, http.StatusNotFound, "share_not_found"},
	{share.ErrOpen, http.StatusConflict, "sharing_in_progress"},
	{share.ErrNothingOwed, http.StatusConflict, "nothing_owed"},
	{share.ErrNumberReused, http.StatusUnprocessableEntity, "out_order_no_reused"},
	{share.ErrPlanDiffers, http.StatusUnprocessableEntity, "sharing_plan_differs"},
	{share.ErrNoPlan, http.StatusUnprocessableEntity, "sharing_plan_missing"},
	{share.ErrNotPaid, http.StatusConflict, "payment_not_paid"},
	{share.ErrExceedsLeft, http.StatusConflict, "share_exceeds_left"},
	{share.ErrFinished, http.StatusConflict, "sharing_finished"},
	{share.ErrNothing, http.StatusConflict, "nothing_to_share"},
	{share.ErrNotRefused, http.StatusConflict, "share_not_refused"},
	{transfer.ErrNotFound, http.StatusNotFound, "transfer_not_found"},
	{transfer.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency_key_reused"},
	{transfer.ErrReferenceReused, http.StatusUnprocessableEntity, "reference_reused"},
	{transfer.ErrUnknownParticipant, http.StatusNotFound, "participant_not_found"},
	{idempotency.ErrReused, http.StatusUnprocessableEntity, "idempotency_key_reused"},
	{idempotency.ErrInProgress, http.StatusConflict, "idempotency_key_in_progress"},
	{tenant.ErrScopes, http.StatusBadRequest, "scopes_invalid"},
	{tenant.ErrKeyName, http.StatusBadRequest, "name_invalid"},
	{tenant.ErrTooManyKeys, http.StatusConflict, "too_many_api_keys"},
	{tenant.ErrLastAdmin, http.StatusConflict, "last_admin_key"},
	{tenant.ErrNoKey, http.StatusNotFound, "api_key_not_found"},
}

// problemOf never shows an inner error's text unless it is one of the known ones: others may quote a query or an address.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	if p := transferProblem(err); p != nil {
		return p
	}
	if p := shareProblem(err); p != nil {
		return p
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return newProblem(k.status, k.code, k.err.Error())
		}
	}
	if beyondRange(err) {
		return newProblem(http.StatusUnprocessableEntity, "amount_out_of_range", "a balance or a stock would be beyond 64 bits")
	}
	if away(err) {
		return newProblem(http.StatusServiceUnavailable, "unavailable", "the database does not answer; try again")
	}
	return newProblem(http.StatusInternalServerError, "internal", "something failed on our side; the log has it under the request id")
}

// beyondRange tells whether a sum does not fit its column.
func beyondRange(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "22003"
}

// away tells whether the database could not be reached, is shutting down, or was lost in the middle, rather than refusing
// what we asked.
func away(err error) bool {
	var connect *pgconn.ConnectError
	var network *net.OpError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &connect), errors.Is(err, context.DeadlineExceeded), pgconn.SafeToRetry(err), pgconn.Timeout(err):
		return true
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	case errors.As(err, &pg):
		return pg.Code[:2] == "08" || pg.Code[:2] == "53" || pg.Code[:2] == "57"
	}
	return false
}

// statusHungUp is the status, in the log alone, of a request whose caller did not wait for the answer.
const statusHungUp = 499

// hungUp tells whether a request failed because its caller is gone, which is no fault of ours.
func hungUp(c *gin.Context, err error) bool {
	return errors.Is(err, context.Canceled) && errors.Is(context.Cause(c.Request.Context()), context.Canceled)
}

func (s *server) fail(c *gin.Context, err error) {
	p := problemOf(err)
	if hungUp(c, err) {
		p = newProblem(statusHungUp, "unavailable", "the caller is gone")
		s.log.Info("the caller hung up", zap.String("request_id", requestID(c)), zap.String("route", c.FullPath()))
	}
	if p.Status >= 500 {
		s.log.Error("request failed", zap.String("request_id", requestID(c)), zap.String("route", c.FullPath()), zap.Error(err))
	}
	if p.Status == http.StatusServiceUnavailable || errors.Is(err, idempotency.ErrInProgress) {
		c.Header("Retry-After", "1")
	}
	c.Abort()
	c.Header("Content-Type", problemType)
	c.JSON(p.Status, p)
}
