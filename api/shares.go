package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/workflows"
)

type shareRequest struct {
	OutOrderNo    string           `json:"out_order_no"`
	Receivers     *[]shareReceiver `json:"receivers"`
	MerchantRatio *int64           `json:"merchant_ratio"`
	Finish        bool             `json:"finish"`
}

type shareReceiver struct {
	Account     string `json:"account"`
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Amount      *int64 `json:"amount"`
	Ratio       *int64 `json:"ratio"`
}

func (s *server) createShare(c *gin.Context) {
	number, err := outTradeNo(c)
	var body shareRequest
	if err == nil {
		err = readJSON(c, &body, false)
	}
	if err == nil && !numberPattern.MatchString(body.OutOrderNo) {
		err = badRequest("out_order_no_invalid", "out_order_no is 1 to 64 of letters, digits and _-.|*")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	request := share.Request{
		TenantID: who(c).TenantID, OutTradeNo: number, OutOrderNo: body.OutOrderNo, MerchantRatio: body.MerchantRatio, Finish: body.Finish,
	}
	if body.Receivers != nil {
		request.Receivers = []share.Receiver{}
		for _, r := range *body.Receivers {
			request.Receivers = append(request.Receivers, share.Receiver{
				Type: r.Type, Account: r.Account, Name: r.Name, Description: r.Description, Amount: r.Amount, Ratio: r.Ratio,
			})
		}
	}
	sh, created, err := s.Shares.Create(c.Request.Context(), request, s.keepShare(c))
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(madeOrFound(created), s.shareBody(sh))
}

// keepShare keeps the answer to what asked for a sharing, in the transaction that made it.
func (s *server) keepShare(c *gin.Context) share.Then {
	return func(tx pgx.Tx, sh share.Share, created bool) error {
		return complete(c.Request.Context(), tx, madeOrFound(created), s.shareBody(sh))
	}
}

// outOrderNo reads the path's number; what cannot be a number names no sharing.
func outOrderNo(c *gin.Context) (string, error) {
	number := c.Param("out_order_no")
	if !numberPattern.MatchString(number) {
		return "", share.ErrNotFound
	}
	return number, nil
}

func (s *server) getShare(c *gin.Context) {
	number, err := outOrderNo(c)
	var body shareBody
	if err == nil {
		err = s.read(c, func(ctx context.Context, tx pgx.Tx) error {
			sh, err := share.Find(ctx, tx, who(c).TenantID, number)
			if err == nil {
				body, err = s.wholeShare(ctx, tx, sh)
			}
			return err
		})
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, body)
}

// wholeShare is a sharing with what refunds take back of it.
func (s *server) wholeShare(ctx context.Context, tx pgx.Tx, sh share.Share) (shareBody, error) {
	returns, err := share.Returns(ctx, tx, sh.ID)
	body := s.shareBody(sh)
	for _, r := range returns {
		body.Returns = append(body.Returns, returnBody{
			OutRefundNo: r.OutRefundNo, Account: r.Account, Amount: r.Amount, State: r.State, Reason: r.Reason, OutReturnNo: r.OutReturnNo,
			Collecting: r.Collecting, LedgerAccount: share.ReceivableCode(r.Account), CreatedAt: r.CreatedAt,
		})
	}
	return body, err
}

type collectRequest struct {
	Account string `json:"account"`
}

func (s *server) collectShare(c *gin.Context) {
	number, err := outOrderNo(c)
	var body collectRequest
	if err == nil {
		err = readJSON(c, &body, true)
	}
	if err == nil && !isText(body.Account) {
		err = badRequest("account_invalid", "account is not text")
	}
	var whole shareBody
	if err == nil {
		ctx := c.Request.Context()
		_, err = s.Shares.Collect(ctx, who(c).TenantID, number, body.Account, func(tx pgx.Tx, sh share.Share, _ bool) error {
			if whole, err = s.wholeShare(ctx, tx, sh); err != nil {
				return err
			}
			return complete(ctx, tx, http.StatusOK, whole)
		})
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, whole)
}

func (s *server) listShares(c *gin.Context) {
	p, err := readPage(c)
	filter := share.Filter{OutTradeNo: c.Query("out_trade_no"), Before: p.before, Limit: p.limit + 1}
	if err == nil && filter.OutTradeNo != "" && !numberPattern.MatchString(filter.OutTradeNo) {
		err = badRequest("out_trade_no_invalid", "out_trade_no is 1 to 64 of letters, digits and _-.|*")
	}
	if err == nil {
		filter.State, err = queryOneOf(c, "state", share.States())
	}
	var list []share.Share
	if err == nil {
		err = s.read(c, func(ctx context.Context, tx pgx.Tx) error {
			list, err = share.List(ctx, tx, who(c).TenantID, filter)
			return err
		})
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(list, p, func(sh share.Share) int64 { return sh.ID }, s.shareBody))
}

func (s *server) retryShare(c *gin.Context) {
	number, err := outOrderNo(c)
	if err == nil {
		err = readJSON(c, &struct{}{}, true)
	}
	var sh share.Share
	if err == nil {
		sh, err = s.Shares.Retry(c.Request.Context(), who(c).TenantID, number, s.keepShare(c))
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, s.shareBody(sh))
}

type shareBody struct {
	OutOrderNo string      `json:"out_order_no"`
	OutTradeNo string      `json:"out_trade_no"`
	State      share.State `json:"state"`
	Reason     string      `json:"reason,omitempty"`
	Amount     int64       `json:"amount"`
	Currency   string      `json:"currency"`
	Base       int64       `json:"base"`
	Finish     bool        `json:"finish"`
	Receivers  []legBody   `json:"receivers"`
	// Returns is what refunds take back; not in lists.
	Returns    []returnBody `json:"returns,omitempty"`
	Channel    string       `json:"channel"`
	Account    string       `json:"account"`
	ShareID    string       `json:"share_id,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	EndedAt    *time.Time   `json:"ended_at,omitempty"`
	WorkflowID string       `json:"workflow_id"`
	TemporalUI string       `json:"temporal_ui,omitempty"`
}

type legBody struct {
	Account       string         `json:"account"`
	Type          string         `json:"type,omitempty"`
	Name          string         `json:"name,omitempty"`
	Description   string         `json:"description,omitempty"`
	Ratio         *int64         `json:"ratio,omitempty"`
	Amount        int64          `json:"amount"`
	State         share.LegState `json:"state"`
	Reason        string         `json:"reason,omitempty"`
	TakenBack     int64          `json:"taken_back"`
	Receivable    int64          `json:"receivable,omitempty"`
	Owed          int64          `json:"owed,omitempty"`
	Excess        int64          `json:"excess,omitempty"`
	LedgerAccount string         `json:"ledger_account"`
	JournalKey    *string        `json:"journal_key,omitempty"`
	EndedAt       *time.Time     `json:"ended_at,omitempty"`
}

type returnBody struct {
	OutRefundNo   string            `json:"out_refund_no"`
	Account       string            `json:"account"`
	Amount        int64             `json:"amount"`
	State         share.ReturnState `json:"state"`
	Reason        string            `json:"reason,omitempty"`
	OutReturnNo   string            `json:"out_return_no"`
	Collecting    bool              `json:"collecting"`
	LedgerAccount string            `json:"ledger_account"`
	CreatedAt     time.Time         `json:"created_at"`
}

func (s *server) shareBody(sh share.Share) shareBody {
	id := workflows.ShareID(sh.TenantID, sh.OutOrderNo)
	b := shareBody{
		OutOrderNo: sh.OutOrderNo, OutTradeNo: sh.OutTradeNo, State: sh.State, Reason: sh.Reason, Amount: sh.Amount, Currency: sh.Currency,
		Base: sh.Base, Finish: sh.Finish, Receivers: []legBody{}, Channel: sh.Channel, Account: sh.Account, ShareID: sh.ShareID,
		CreatedAt: sh.CreatedAt, EndedAt: sh.EndedAt, WorkflowID: id, TemporalUI: s.WorkflowURL(id),
	}
	for _, l := range sh.Legs {
		b.Receivers = append(b.Receivers, legBody{
			Account: l.Account, Type: l.Type, Name: l.Name, Description: l.Description, Ratio: l.Ratio, Amount: l.Amount, State: l.State,
			Reason: l.Reason, TakenBack: l.TakenBack, Receivable: l.Receivable, Owed: l.Receivable - l.Settled, Excess: l.Excess,
			LedgerAccount: share.ReceiverCode(l.Account), JournalKey: l.JournalKey, EndedAt: l.EndedAt,
		})
	}
	return b
}

// shareProblem gives a refused request its reason.
func shareProblem(err error) *problem {
	if !errors.Is(err, share.ErrInvalid) {
		return nil
	}
	_, reason, _ := strings.Cut(err.Error(), share.ErrInvalid.Error()+": ")
	return newProblem(http.StatusUnprocessableEntity, "share_invalid", reason)
}
