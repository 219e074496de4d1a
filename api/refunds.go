package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/workflows"
)

// maxRefundReason is what the narrowest channel takes, in characters.
const maxRefundReason = 80

type refundRequest struct {
	OutRefundNo string `json:"out_refund_no"`
	Amount      *int64 `json:"amount"`
	Reason      string `json:"reason"`
}

func (r refundRequest) valid() error {
	if !numberPattern.MatchString(r.OutRefundNo) {
		return badRequest("out_refund_no_invalid", "out_refund_no is 1 to 64 of letters, digits and _-.|*")
	}
	if r.Amount == nil || *r.Amount <= 0 {
		return badRequest("amount_invalid", "amount must be a whole number above 0, in minor units of the payment's currency")
	}
	if utf8.RuneCountInString(r.Reason) > maxRefundReason || strings.ContainsRune(r.Reason, 0) {
		return badRequest("reason_invalid", fmt.Sprintf("reason has at most %d characters and no NUL", maxRefundReason))
	}
	return nil
}

type refundBody struct {
	OutRefundNo   string        `json:"out_refund_no"`
	OutTradeNo    string        `json:"out_trade_no"`
	State         refund.State  `json:"state"`
	Amount        int64         `json:"amount"`
	Currency      string        `json:"currency"`
	Reason        string        `json:"reason,omitempty"`
	Origin        refund.Origin `json:"origin"`
	Channel       string        `json:"channel"`
	Account       string        `json:"account"`
	TransactionID string        `json:"transaction_id"`
	RefundID      string        `json:"refund_id,omitempty"`
	EventID       *int64        `json:"event_id,omitempty"`
	Abnormal      bool          `json:"abnormal,omitempty"`
	Failure       string        `json:"failure,omitempty"`
	Fee           *int64        `json:"fee,omitempty"`
	Awaited       int64         `json:"awaited,omitempty"`
	Receivable    int64         `json:"receivable,omitempty"`
	Owed          int64         `json:"owed,omitempty"`
	Excess        int64         `json:"excess,omitempty"`
	JournalKeys   []string      `json:"journal_keys"`
	CreatedAt     time.Time     `json:"created_at"`
	StateSince    time.Time     `json:"state_since"`
	EndedAt       *time.Time    `json:"ended_at,omitempty"`
	WorkflowID    string        `json:"workflow_id,omitempty"`
	TemporalUI    string        `json:"temporal_ui,omitempty"`
}

func (s *server) refundBody(r refund.Refund) refundBody {
	b := refundBody{
		OutRefundNo: r.OutRefundNo, OutTradeNo: r.OutTradeNo, State: r.State, Amount: r.Amount, Currency: r.Currency, Reason: r.Reason,
		Origin: r.Origin, Channel: r.Channel, Account: r.Account, TransactionID: r.TransactionID, RefundID: r.RefundID, EventID: r.EventID,
		Abnormal: r.Abnormal, Failure: r.Failure, Fee: r.Fee, Awaited: r.Awaited, Receivable: r.Receivable, Owed: r.Owed(), Excess: r.Excess, JournalKeys: []string{},
		CreatedAt: r.CreatedAt, StateSince: r.StateSince, EndedAt: r.EndedAt,
	}
	for _, key := range []*string{r.JournalKey, r.ReversalKey} {
		if key != nil {
			b.JournalKeys = append(b.JournalKeys, *key)
		}
	}
	if r.Asks && r.Origin != refund.ByChannel { // what is adopted, or waits for a callback, has no flow of its own
		b.WorkflowID = workflows.RefundID(r.TenantID, r.OutRefundNo)
		b.TemporalUI = s.WorkflowURL(b.WorkflowID)
	}
	return b
}

func (s *server) createRefund(c *gin.Context) {
	number, err := outTradeNo(c)
	var body refundRequest
	if err == nil {
		err = readJSON(c, &body, false)
	}
	if err == nil {
		err = body.valid()
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	r, created, err := s.Refunds.Create(c.Request.Context(), refund.Request{
		TenantID: who(c).TenantID, OutTradeNo: number, OutRefundNo: body.OutRefundNo, Amount: *body.Amount, Reason: body.Reason,
	}, s.keepRefund(c))
	s.showRefund(c, r, created, err)
}

// returnMoney gives back the money that an event brought to suspense.
func (s *server) returnMoney(c *gin.Context) {
	id, err := eventID(c)
	var reason string
	if err == nil {
		reason, err = readReason(c)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	r, created, err := s.Refunds.Return(c.Request.Context(), who(c).TenantID, id, reason, false, s.keepRefund(c))
	s.showRefund(c, r, created, err)
}

// keepRefund keeps the answer to what asked for a refund, in the transaction that made it.
func (s *server) keepRefund(c *gin.Context) refund.Then {
	return func(tx pgx.Tx, r refund.Refund, created bool) error {
		return complete(c.Request.Context(), tx, madeOrFound(created), s.refundBody(r))
	}
}

func (s *server) showRefund(c *gin.Context, r refund.Refund, created bool, err error) {
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(madeOrFound(created), s.refundBody(r))
}

// outRefundNo reads the path's number; what cannot be a number names no refund.
func outRefundNo(c *gin.Context) (string, error) {
	number := c.Param("out_refund_no")
	if !numberPattern.MatchString(number) {
		return "", refund.ErrNotFound
	}
	return number, nil
}

func (s *server) getRefund(c *gin.Context) {
	number, err := outRefundNo(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	var r refund.Refund
	err = s.read(c, func(ctx context.Context, tx pgx.Tx) error {
		r, err = refund.Find(ctx, tx, who(c).TenantID, number)
		return err
	})
	s.showRefund(c, r, false, err)
}

// retryRefund has the channel asked now, and called again under the same number where it does not know the refund.
func (s *server) retryRefund(c *gin.Context) {
	number, err := outRefundNo(c)
	if err == nil {
		err = readJSON(c, &struct{}{}, true)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	r, err := s.Refunds.Retry(c.Request.Context(), who(c).TenantID, number, s.keepRefund(c))
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, s.refundBody(r))
}

func (s *server) listRefunds(c *gin.Context) {
	p, err := readPage(c)
	filter := refund.Filter{OutTradeNo: c.Query("out_trade_no"), Before: p.before, Limit: p.limit + 1}
	if err == nil {
		filter.State, err = queryOneOf(c, "state", refund.States())
	}
	if err == nil && !isText(filter.OutTradeNo) {
		err = badRequest("out_trade_no_invalid", "out_trade_no is not text")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	var refunds []refund.Refund
	err = s.read(c, func(ctx context.Context, tx pgx.Tx) error {
		refunds, err = refund.List(ctx, tx, who(c).TenantID, filter)
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(refunds, p, func(r refund.Refund) int64 { return r.ID }, s.refundBody))
}
