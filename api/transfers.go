package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/workflows"
)

// transferWait is how long a caller waits for a transfer's end before it is told that it is under way.
const transferWait = 3 * time.Second

type transferRequest struct {
	From         string               `json:"from"`
	To           string               `json:"to"`
	Amount       *int64               `json:"amount"`
	Currency     string               `json:"currency"`
	Reference    string               `json:"reference"`
	Mode         transfer.Mode        `json:"mode"`
	Participants []participantRequest `json:"participants"`
}

type participantRequest struct {
	Type        string          `json:"type"`
	Account     string          `json:"account"`
	Amount      int64           `json:"amount"`
	Currency    string          `json:"currency"`
	SKU         string          `json:"sku"`
	Quantity    int64           `json:"quantity"`
	Participant string          `json:"participant"`
	Body        json.RawMessage `json:"body"`
}

// legs gives from, to and amount, and the participants, as the legs of one transfer.
func (r transferRequest) legs() ([]transfer.Leg, error) {
	var legs []transfer.Leg
	if r.From != "" || r.To != "" || r.Amount != nil || len(r.Participants) == 0 {
		if r.Amount == nil || *r.Amount <= 0 {
			return nil, badRequest("amount_invalid", "amount must be a whole number above 0, in minor units of the currency")
		}
		if _, err := money.Exponent(r.Currency); err != nil {
			return nil, badRequest("currency_unknown", "currency must be an ISO 4217 code in upper case, such as CNY")
		}
		if r.From == r.To {
			return nil, newProblem(http.StatusUnprocessableEntity, "same_account", "from and to must be two accounts")
		}
		legs = append(legs,
			transfer.Leg{Type: transfer.LedgerLeg, Account: r.From, Amount: -*r.Amount, Currency: r.Currency},
			transfer.Leg{Type: transfer.LedgerLeg, Account: r.To, Amount: *r.Amount, Currency: r.Currency})
	}
	for _, p := range r.Participants {
		if !isText(p.Participant) {
			return nil, transfer.ErrUnknownParticipant
		}
		if p.Type == transfer.LedgerLeg {
			if _, err := money.Exponent(p.Currency); err != nil {
				return nil, badRequest("currency_unknown", "currency must be an ISO 4217 code in upper case, such as CNY")
			}
		}
		body, err := canonicalJSON(p.Body)
		if err != nil {
			return nil, err
		}
		legs = append(legs, transfer.Leg{
			Type: p.Type, Account: p.Account, Amount: p.Amount, Currency: p.Currency,
			SKU: p.SKU, Quantity: p.Quantity, Participant: p.Participant, Body: body,
		})
	}
	return legs, nil
}

func (s *server) createTransfer(c *gin.Context) {
	key, err := idempotencyKey(c)
	var body transferRequest
	if err == nil {
		err = readJSON(c, &body, false)
	}
	if err == nil && key == "" && body.Reference == "" {
		err = badRequest("idempotency_key_required", "a transfer needs an Idempotency-Key or a reference")
	}
	if err == nil && (utf8.RuneCountInString(body.Reference) > maxReference || strings.ContainsFunc(body.Reference, unicode.IsControl)) {
		err = badRequest("reference_invalid", "reference has at most 128 characters, none of them a control character")
	}
	var legs []transfer.Leg
	if err == nil {
		legs, err = body.legs()
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	t, created, err := s.Transfers.Create(c.Request.Context(), transfer.Request{
		TenantID: who(c).TenantID, Reference: body.Reference, IdempotencyKey: key, Mode: body.Mode, Legs: legs,
	}, func(tx pgx.Tx, t transfer.Transfer) error {
		status, answer := s.transferAnswer(t)
		return complete(c.Request.Context(), tx, status, answer)
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	if !created {
		c.Header(replayedHeader, "true")
	}
	if t.State == transfer.Trying && !prefersAsync(c.Request.Header) {
		t, err = s.await(c, t)
		if err != nil {
			s.fail(c, err)
			return
		}
	}
	status, answer := s.transferAnswer(t)
	if status == http.StatusAccepted && prefersAsync(c.Request.Header) {
		c.Header("Preference-Applied", "respond-async")
	}
	if refused, ok := answer.(*problem); ok {
		s.fail(c, refused)
		return
	}
	c.JSON(status, answer)
}

const maxReference = 128

// await waits for the end of a transfer's flow, within bounds, and reads what is true then.
func (s *server) await(c *gin.Context, t transfer.Transfer) (transfer.Transfer, error) {
	bounded, cancel := context.WithTimeout(c.Request.Context(), transferWait)
	defer cancel()
	// Whatever this says, the row decides.
	_ = s.AwaitTransfer(bounded, t)
	return s.findTransfer(c, t.ID)
}

func (s *server) findTransfer(c *gin.Context, id int64) (t transfer.Transfer, err error) {
	err = s.read(c, func(ctx context.Context, tx pgx.Tx) error {
		t, err = transfer.Find(ctx, tx, who(c).TenantID, id)
		return err
	})
	return t, err
}

// refusals say what the codes of a cancelled transfer mean; all of them are 409.
var refusals = map[string]string{
	transfer.InsufficientFunds:  "an account has less available than the transfer takes",
	transfer.OutOfStock:         "less is in stock than the transfer takes",
	transfer.AccountNotFound:    "an account is not there",
	transfer.SKUNotFound:        "a sku is not there",
	transfer.AmountOutOfRange:   "a balance would be beyond 64 bits",
	transfer.ParticipantRefused: "a participant refused",
	transfer.ParticipantAway:    "a participant did not answer in time",
	transfer.Canceled:           "it was cancelled",
}

// transferAnswer is what a transfer is answered with as it is: itself, or why it was refused.
func (s *server) transferAnswer(t transfer.Transfer) (status int, body any) {
	switch t.State {
	case transfer.Trying:
		return http.StatusAccepted, s.transferBody(t)
	case transfer.Cancelling, transfer.Cancelled:
		code := transfer.Canceled
		if t.Failure != nil {
			code = *t.Failure
		}
		return http.StatusConflict, newProblem(http.StatusConflict, code, "transfer "+strconv.FormatInt(t.ID, 10)+": "+refusals[code])
	default:
		return http.StatusCreated, s.transferBody(t)
	}
}

type transferBody struct {
	ID         int64           `json:"id"`
	State      transfer.State  `json:"state"`
	Mode       transfer.Mode   `json:"mode"`
	Reference  *string         `json:"reference,omitempty"`
	Failure    *string         `json:"failure,omitempty"`
	Legs       json.RawMessage `json:"legs"`
	CreatedAt  time.Time       `json:"created_at"`
	DecidedAt  *time.Time      `json:"decided_at,omitempty"`
	EndedAt    *time.Time      `json:"ended_at,omitempty"`
	WorkflowID string          `json:"workflow_id,omitempty"`
	TemporalUI string          `json:"temporal_ui,omitempty"`
}

func (s *server) transferBody(t transfer.Transfer) transferBody {
	b := transferBody{
		ID: t.ID, State: t.State, Mode: t.Mode, Reference: t.Reference, Failure: t.Failure, Legs: t.LegsJSON,
		CreatedAt: t.CreatedAt, DecidedAt: t.DecidedAt, EndedAt: t.EndedAt,
	}
	if t.Mode == transfer.TCC {
		b.WorkflowID = workflows.TransferID(t.GID)
		b.TemporalUI = s.WorkflowURL(b.WorkflowID)
	}
	return b
}

func (s *server) getTransfer(c *gin.Context) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		s.fail(c, transfer.ErrNotFound)
		return
	}
	t, err := s.findTransfer(c, id)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, s.transferBody(t))
}

// transferProblem gives a refused request its reason.
func transferProblem(err error) *problem {
	if !errors.Is(err, transfer.ErrInvalid) {
		return nil
	}
	_, reason, _ := strings.Cut(err.Error(), transfer.ErrInvalid.Error()+": ")
	return newProblem(http.StatusUnprocessableEntity, "transfer_invalid", reason)
}
