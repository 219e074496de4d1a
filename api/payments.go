package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/acquiring"
	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/stock"
	"github.com/paylatch/paylatch/workflows"
)

// Limits of a payment's fields.
const (
	maxDescription = 256 // characters
	maxItems       = 50
	maxMethod      = 32          // characters
	maxPayer       = 128         // characters
	maxReturnURL   = 2048        // bytes
	maxMetadata    = 16 << 10    // bytes of JSON
	maxExpiry      = 366 * 86400 // seconds
)

// numberPattern is what a merchant's number may be.
var numberPattern = regexp.MustCompile(`^[A-Za-z0-9_.|*-]{1,64}$`)

type paymentRequest struct {
	OutTradeNo       string          `json:"out_trade_no"`
	Amount           *int64          `json:"amount"`
	Currency         string          `json:"currency"`
	Description      string          `json:"description"`
	Channel          string          `json:"channel"`
	Account          string          `json:"account"`
	Method           string          `json:"method"`
	ExpiresInSeconds *int64          `json:"expires_in_seconds"`
	Items            []stock.Item    `json:"items"`
	RedemptionCode   bool            `json:"redemption_code"`
	Metadata         json.RawMessage `json:"metadata"`
	// ChannelOptions is what some methods need to know.
	ChannelOptions payment.ChannelOptions `json:"channel_options"`
	// ProfitSharing freezes how the payment will be divided.
	ProfitSharing json.RawMessage `json:"profit_sharing"`
}

// valid checks every field and gives the request in the form that is stored and compared.
func (r paymentRequest) valid() (payment.Request, error) {
	if !numberPattern.MatchString(r.OutTradeNo) {
		return payment.Request{}, badRequest("out_trade_no_invalid", "out_trade_no is 1 to 64 of letters, digits and _-.|*")
	}
	if r.Amount == nil || *r.Amount <= 0 {
		return payment.Request{}, badRequest("amount_invalid", "amount must be a whole number above 0, in minor units of the currency")
	}
	if _, err := money.Exponent(r.Currency); err != nil {
		return payment.Request{}, badRequest("currency_unknown", "currency must be an ISO 4217 code in upper case, such as CNY")
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{{"description", r.Description, maxDescription}, {"method", r.Method, maxMethod}, {"channel", r.Channel, 64}, {"account", r.Account, 64}} {
		if utf8.RuneCountInString(f.value) > f.max || strings.ContainsRune(f.value, 0) {
			return payment.Request{}, badRequest(fieldCode(f.name), fmt.Sprintf("%s has at most %d characters and no NUL", f.name, f.max))
		}
	}
	if err := validOptions(r.ChannelOptions); err != nil {
		return payment.Request{}, err
	}
	if r.Account != "" && r.Channel == "" {
		return payment.Request{}, badRequest("channel_invalid", "an account needs its channel")
	}
	if r.ExpiresInSeconds != nil && (*r.ExpiresInSeconds < 1 || *r.ExpiresInSeconds > maxExpiry) {
		return payment.Request{}, badRequest("expires_in_seconds_invalid", fmt.Sprintf("expires_in_seconds is 1 to %d", maxExpiry))
	}
	if len(r.Items) > maxItems || slices.ContainsFunc(r.Items, func(i stock.Item) bool {
		return !stock.ValidSKU(i.SKU) || i.Quantity < 1 || i.Quantity > math.MaxInt32
	}) {
		return payment.Request{}, badRequest("items_invalid", fmt.Sprintf("items holds at most %d of a sku and a quantity above 0", maxItems))
	}
	metadata, err := canonicalObject(r.Metadata)
	if err != nil {
		return payment.Request{}, err
	}
	sharing, err := sharingPlan(r.ProfitSharing)
	if err != nil {
		return payment.Request{}, err
	}
	return payment.Request{
		OutTradeNo: r.OutTradeNo, Amount: *r.Amount, Currency: r.Currency, Description: r.Description,
		Channel: r.Channel, Account: r.Account, Method: r.Method, ExpiresIn: r.ExpiresInSeconds, Metadata: metadata,
		Items: stock.Sorted(r.Items), RedemptionCode: r.RedemptionCode, Options: r.ChannelOptions, SharingPlan: sharing,
	}, nil
}

// sharingPlan gives a plan in its canonical form; absent, the payment is not divided.
func sharingPlan(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	plan, err := share.ParsePlan(raw)
	if err != nil {
		return nil, badRequest("profit_sharing_invalid", err.Error())
	}
	return json.Marshal(plan)
}

func validOptions(o payment.ChannelOptions) error {
	invalid := func(why string) error { return badRequest("channel_options_invalid", why) }
	switch {
	case utf8.RuneCountInString(o.Payer) > maxPayer || !isText(o.Payer):
		return invalid(fmt.Sprintf("payer has at most %d characters and no NUL", maxPayer))
	case o.ClientIP != "" && net.ParseIP(o.ClientIP) == nil:
		return invalid("client_ip must be an IP address")
	}
	if o.ReturnURL != "" {
		u, err := url.Parse(o.ReturnURL)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || len(o.ReturnURL) > maxReturnURL {
			return invalid("return_url must be an http or https URL")
		}
	}
	return nil
}

// canonicalObject is [canonicalJSON] of a payment's metadata: an object, {} where there is none.
func canonicalObject(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	if raw[0] != '{' {
		return nil, badRequest("metadata_invalid", "metadata must be a JSON object")
	}
	canonical, err := canonicalJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("canonical metadata: %w", err)
	}
	if len(canonical) > maxMetadata {
		return nil, badRequest("metadata_invalid", fmt.Sprintf("metadata has at most %d bytes", maxMetadata))
	}
	return canonical, nil
}

type paymentBody struct {
	OutTradeNo     string          `json:"out_trade_no"`
	State          payment.State   `json:"state"`
	Amount         int64           `json:"amount"`
	Currency       string          `json:"currency"`
	Description    string          `json:"description"`
	Channel        string          `json:"channel,omitempty"`
	Account        string          `json:"account,omitempty"`
	Method         string          `json:"method,omitempty"`
	Metadata       json.RawMessage `json:"metadata"`
	Items          json.RawMessage `json:"items"`
	RedemptionCode *string         `json:"redemption_code,omitempty"`
	RefundState    string          `json:"refund_state"`
	RefundedAmount int64           `json:"refunded_amount"`
	RefundPending  int64           `json:"refund_pending"`
	CloseReason    *string         `json:"close_reason,omitempty"`
	CreatedAt      time.Time       `json:"created_at"`
	ExpiresAt      time.Time       `json:"expires_at"`
	PaidAt         *time.Time      `json:"paid_at,omitempty"`
	ShippedAt      *time.Time      `json:"shipped_at,omitempty"`
	CompletedAt    *time.Time      `json:"completed_at,omitempty"`
	ClosedAt       *time.Time      `json:"closed_at,omitempty"`
	// PrepayState is there for an order whose channel is asked; ChannelData once the payer can pay.
	PrepayState      *string         `json:"prepay_state,omitempty"`
	PrepayFailure    *string         `json:"prepay_failure,omitempty"`
	ChannelData      json.RawMessage `json:"channel_data,omitempty"`
	ProfitSharing    json.RawMessage `json:"profit_sharing,omitempty"`
	CloseRequestedAt *time.Time      `json:"close_requested_at,omitempty"`
	WorkflowID       string          `json:"workflow_id"`
	TemporalUI       string          `json:"temporal_ui,omitempty"`
}

// paymentDetail is a payment with what channels reported about it.
type paymentDetail struct {
	paymentBody
	Events      []eventBody `json:"events"`
	JournalKeys []string    `json:"journal_keys"`
}

func (s *server) paymentBody(p payment.Payment) paymentBody {
	id := workflows.PaymentID(p.TenantID, p.OutTradeNo)
	return paymentBody{
		OutTradeNo: p.OutTradeNo, State: p.State, Amount: p.Amount, Currency: p.Currency, Description: p.Description,
		Channel: p.Channel, Account: p.Account, Method: p.Method, Metadata: p.Metadata,
		Items: p.Items, RedemptionCode: p.RedemptionCode,
		RefundState: p.RefundState, RefundedAmount: p.RefundedAmount, RefundPending: p.RefundPending, CloseReason: p.CloseReason,
		CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt, PaidAt: p.PaidAt, ShippedAt: p.ShippedAt,
		CompletedAt: p.CompletedAt, ClosedAt: p.ClosedAt,
		PrepayState: p.PrepayState, PrepayFailure: p.PrepayFailure, ChannelData: p.ChannelData, ProfitSharing: p.SharingPlan, CloseRequestedAt: p.CloseRequestedAt,
		WorkflowID: id, TemporalUI: s.WorkflowURL(id),
	}
}

func (s *server) createPayment(c *gin.Context) {
	var body paymentRequest
	if err := readJSON(c, &body, false); err != nil {
		s.fail(c, err)
		return
	}
	request, err := body.valid()
	if err != nil {
		s.fail(c, err)
		return
	}
	tenantID := who(c).TenantID
	var detail paymentDetail
	p, created, err := s.Orders.Create(c.Request.Context(), tenantID, request, time.Now(), func(tx pgx.Tx, p payment.Payment, created bool) error {
		if waitsForChannel(p) {
			return nil
		}
		if detail, err = s.paymentDetail(c.Request.Context(), tx, p); err != nil {
			return err
		}
		return complete(c.Request.Context(), tx, madeOrFound(created), detail)
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	// Events may have come before their order. The order is made: an error here is made up for by the re-drive.
	if err := s.Entry.OrderCreated(c.Request.Context(), tenantID, p.OutTradeNo); err != nil {
		s.log.Warn("events that came before their order wait for the re-drive", zap.String("tenant", tenantID),
			zap.String("order", p.OutTradeNo), zap.Error(err))
	}
	if !waitsForChannel(p) {
		c.JSON(madeOrFound(created), detail)
		return
	}
	if p, err = s.announce(c.Request.Context(), p); err != nil {
		unfinished(c) // the order is there
		s.fail(c, err)
		return
	}
	if waitsForChannel(p) {
		unfinished(c)
	}
	s.showPayment(c, madeOrFound(created), p)
}

// waitsForChannel tells whether an order is not announced yet: what is said of it now is not the last word.
func waitsForChannel(p payment.Payment) bool {
	return p.PrepayState != nil && *p.PrepayState == payment.PrepayPending
}

// madeOrFound is the status of a request that makes something: 201, or 200 for what the same request made before.
func madeOrFound(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// prepayWait is how long a request waits for its channel; the announcement goes on after it.
const prepayWait = 6 * time.Second

// announce has an order's channel told of it, and gives the order as it is then. What the channel does not answer in time
// is there when the request comes again.
func (s *server) announce(ctx context.Context, p payment.Payment) (payment.Payment, error) {
	if s.Prepay == nil || p.State != payment.Pending || !waitsForChannel(p) || p.CloseRequestedAt != nil {
		return p, nil
	}
	wait, cancel := context.WithTimeout(ctx, prepayWait)
	defer cancel()
	if err := s.Prepay(wait, orderRef(p)); err != nil {
		s.log.Warn("an order is not announced yet", zap.String("tenant", p.TenantID), zap.String("order", p.OutTradeNo), zap.Error(err))
	}
	p, err := s.Orders.Get(ctx, p.TenantID, p.OutTradeNo)
	if err == nil && p.PrepayState != nil && *p.PrepayState == payment.PrepayFailed {
		return p, newProblem(http.StatusUnprocessableEntity, "channel_refused", *p.PrepayFailure+"; the same request tries again")
	}
	return p, err
}

func orderRef(p payment.Payment) acquiring.Ref {
	return acquiring.Ref{PaymentID: p.ID, TenantID: p.TenantID, OutTradeNo: p.OutTradeNo, Channel: p.Channel}
}

// closePayment closes an order; where its channel has to close it first, the answer is 202 and the order ends CLOSED or PAID.
func (s *server) closePayment(c *gin.Context) {
	number, err := outTradeNo(c)
	if err == nil {
		err = readJSON(c, &struct{}{}, true)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	var detail paymentDetail
	p, err := s.Orders.Close(c.Request.Context(), who(c).TenantID, number, func(tx pgx.Tx, p payment.Payment) error {
		if detail, err = s.paymentDetail(c.Request.Context(), tx, p); err != nil || p.State == payment.Pending {
			return err
		}
		return complete(c.Request.Context(), tx, http.StatusOK, detail)
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	status := http.StatusOK
	if p.State == payment.Pending {
		status = http.StatusAccepted
		s.Acquiring.RequestClose(c.Request.Context(), orderRef(p))
	}
	c.JSON(status, detail)
}

// outTradeNo reads the path's number; what cannot be a number names no payment.
func outTradeNo(c *gin.Context) (string, error) {
	number := c.Param("out_trade_no")
	if !numberPattern.MatchString(number) {
		return "", payment.ErrNotFound
	}
	return number, nil
}

func (s *server) getPayment(c *gin.Context) {
	number, err := outTradeNo(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	p, err := s.Orders.Get(c.Request.Context(), who(c).TenantID, number)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.showPayment(c, http.StatusOK, p)
}

func (s *server) movePayment(move func(ctx context.Context, tenantID, outTradeNo string, then ...payment.Moved) (payment.Payment, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		number, err := outTradeNo(c)
		if err == nil {
			err = readJSON(c, &struct{}{}, true)
		}
		if err != nil {
			s.fail(c, err)
			return
		}
		var detail paymentDetail
		_, err = move(c.Request.Context(), who(c).TenantID, number, func(tx pgx.Tx, p payment.Payment) error {
			if detail, err = s.paymentDetail(c.Request.Context(), tx, p); err != nil {
				return err
			}
			// By the time of a repeat the order may be where this move is illegal.
			return complete(c.Request.Context(), tx, http.StatusOK, detail)
		})
		if err != nil {
			s.fail(c, err)
			return
		}
		c.JSON(http.StatusOK, detail)
	}
}

func (s *server) showPayment(c *gin.Context, status int, p payment.Payment) {
	var detail paymentDetail
	err := s.read(c, func(ctx context.Context, tx pgx.Tx) (err error) {
		detail, err = s.paymentDetail(ctx, tx, p)
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(status, detail)
}

// paymentDetail adds to an order what channels reported about it, as tx sees it.
func (s *server) paymentDetail(ctx context.Context, tx pgx.Tx, p payment.Payment) (paymentDetail, error) {
	events, err := payment.ListEvents(ctx, tx, p.TenantID, payment.EventFilter{OutTradeNo: p.OutTradeNo, Limit: maxLimit})
	detail := paymentDetail{paymentBody: s.paymentBody(p), Events: []eventBody{}, JournalKeys: []string{}}
	for _, e := range events {
		detail.Events = append(detail.Events, newEventBody(e))
		if e.JournalKey != nil {
			detail.JournalKeys = append(detail.JournalKeys, *e.JournalKey)
		}
	}
	return detail, err
}

func (s *server) listPayments(c *gin.Context) {
	p, err := readPage(c)
	filter := payment.Filter{Channel: c.Query("channel"), Before: p.before, Limit: p.limit + 1}
	if err == nil {
		filter.State, err = queryOneOf(c, "state", payment.States())
	}
	if err == nil && !isText(filter.Channel) {
		err = badRequest("channel_invalid", "channel is not text")
	}
	if err == nil {
		filter.From, err = queryTime(c, "from")
	}
	if err == nil {
		filter.To, err = queryTime(c, "to")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	payments, err := s.Orders.List(c.Request.Context(), who(c).TenantID, filter)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(payments, p, func(p payment.Payment) int64 { return p.ID }, s.paymentBody))
}
